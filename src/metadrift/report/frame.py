"""The plane of an SVG chart: data to pixels, axes, marks, and the <svg> around it all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from metadrift.report.charts import Mark, Span, Unit, ticks

BOTTOM, TOP, RIGHT = 34, 8, 10
STRIP = 7  # height of the strip of true domains


class Frame:
    """The plane of a chart: data to pixels, axes, and the <svg> around it all."""

    def __init__(
        self, width: int, height: int, left: int, x: tuple[float, float], y: tuple[float, float]
    ) -> None:
        self.width, self.height, self.left = width, height, left
        self.right, self.top, self.bottom = width - RIGHT, TOP, height - BOTTOM
        self._x, self._y = x, y
        self.parts: list[Markup] = []

    def x(self, value: float) -> float:
        low, high = self._x
        return round(self.left + (value - low) / ((high - low) or 1) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        low, high = self._y
        return round(
            self.bottom - (value - low) / ((high - low) or 1) * (self.bottom - self.top), 1
        )

    def add(self, pattern: str, **values: Any) -> None:
        """Put a piece in; every value is escaped."""
        self.parts.append(Markup(pattern).format(**values))

    def text(
        self, x: float, y: float, words: object, anchor: str = "middle", kind: str = ""
    ) -> None:
        self.add(
            '<text x="{x}" y="{y}" text-anchor="{a}" class="{k}">{t}</text>',
            x=x,
            y=y,
            a=anchor,
            k=kind,
            t=words,
        )

    def x_axis(self, label: str, unit: Unit = "") -> None:
        most = 5 if self.width < 500 else 9
        for tick in ticks(*self._x, most=most):
            at = self.x(tick)
            self.add(
                '<line class="grid" x1="{x}" x2="{x}" y1="{a}" y2="{b}"/>',
                x=at,
                a=self.top,
                b=self.bottom,
            )
            self.text(at, self.bottom + 14, _tick(tick, unit))
        self.text((self.left + self.right) / 2, self.height - 4, label, kind="label")

    def y_axis(self, label: str, unit: Unit) -> None:
        for tick in ticks(*self._y, most=5):
            at = self.y(tick)
            self.add(
                '<line class="grid" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>',
                y=at,
                a=self.left,
                b=self.right,
            )
            self.text(self.left - 5, at + 3.5, _tick(tick, unit), "end")
        middle = (self.top + self.bottom) / 2
        self.add(
            '<text class="label" text-anchor="middle" transform="translate(9 {y}) rotate(-90)">'
            "{t}</text>",
            y=middle,
            t=label,
        )

    def strip(self, spans: Sequence[Span]) -> None:
        """The true domains, as a thin strip on the axis."""
        for span in spans:
            self.box(span, self.bottom - STRIP, STRIP, f"{span.name}: {steps_of(span)}")

    def box(self, span: Span, top: float, height: float, tip: str, kind: str = "span") -> None:
        self.add(
            '<rect class="{k}" x="{x}" y="{y}" width="{w}" height="{h}" '
            'style="fill:var(--{c})" data-tip="{t}"/>',
            k=kind,
            x=self.x(span.start),
            y=top,
            w=round(self.x(span.end) - self.x(span.start), 1),
            h=height,
            c=span.colour,
            t=tip,
        )

    def marks(self, marks: Sequence[Mark]) -> None:
        for mark in marks:
            at = self.x(mark.x)
            if mark.kind == "change":
                self.add(
                    '<line class="change" x1="{x}" x2="{x}" y1="{a}" y2="{b}" data-tip="{t}"/>',
                    x=at,
                    a=self.top,
                    b=self.bottom,
                    t=f"{mark.text} at step {mark.x:g}",
                )
            else:
                self.alarm(at, self.top, mark.text)

    def alarm(self, x: float, y: float, tip: str, way: int = 1) -> None:
        """A triangle that points down to its place, or up with `way` -1."""
        self.add(
            '<path class="alarm" d="M{a} {y}H{b}L{x} {z}Z" data-tip="{t}"/>',
            a=x - 5,
            b=x + 5,
            x=x,
            y=y - 3 * way,
            z=y + 6 * way,
            t=tip,
        )

    def svg(self, title: str, hover: dict[str, Any] | None = None) -> Markup:
        inside = Markup("").join(self.parts)
        cross = Markup('<line class="cross" y1="{a}" y2="{b}"/>').format(a=self.top, b=self.bottom)
        more = Markup("")
        if hover is not None:
            plane = {"left": self.left, "right": self.right, "x": list(self._x)}
            text = json.dumps(plane | hover, separators=(",", ":"))
            more = Markup(' data-hover="{}"').format(text)
        return Markup(
            '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-label="{t}"{m}>{i}{c}</svg>'
        ).format(
            w=self.width, h=self.height, t=title, m=more, i=inside, c=cross if hover else Markup("")
        )


def _tick(value: float, unit: Unit) -> str:
    if unit == "%":
        return f"{100 * value:g}"
    return f"{100 * value:+g}" if unit == "points" and value else f"{value:,g}"


def steps_of(span: Span) -> str:
    return f"steps {span.start:g} to {span.end:g}"
