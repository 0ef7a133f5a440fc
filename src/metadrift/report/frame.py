"""The frame of an SVG chart: scales, axes, marks, and the <svg> element."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from metadrift.report.charts import Mark, Span, Unit, ticks

BOTTOM, TOP, RIGHT = 34, 8, 10
STRIP = 7  # height of the strip of true domains


class Frame:
    """Collects the elements of one chart. `x` and `y` turn data into pixels."""

    def __init__(
        self, width: int, height: int, left: int, x: tuple[float, float], y: tuple[float, float]
    ) -> None:
        self.width, self.height, self.left = width, height, left
        self.right, self.top, self.bottom = width - RIGHT, TOP, height - BOTTOM
        self._x, self._y = x, y
        self._elements: list[Markup] = []

    def x(self, value: float) -> float:
        low, high = self._x
        return round(self.left + (value - low) / ((high - low) or 1) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        low, high = self._y
        share = (value - low) / ((high - low) or 1)
        return round(self.bottom - share * (self.bottom - self.top), 1)

    def element(self, tag: str, text: object = None, **attributes: object) -> None:
        """Add an element. Every value is escaped; `class_` and `data_tip` are class and data-tip.

        Examples
        --------
        >>> frame = Frame(100, 60, 10, (0, 1), (0, 1))
        >>> frame.element("text", "a < b", class_="name", x=3)
        >>> print(frame._elements[0])
        <text class="name" x="3">a &lt; b</text>
        """
        inside = "" if text is None else text
        pattern = Markup("<{0} {1}>{2}</{0}>")
        self._elements.append(pattern.format(tag, _attributes(attributes), inside))

    def open_group(self, **attributes: object) -> None:
        """Begin a group: it holds all elements until `close_group`."""
        self._elements.append(Markup("<g {}>").format(_attributes(attributes)))

    def close_group(self) -> None:
        self._elements.append(Markup("</g>"))

    def text(self, x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> None:
        self.element("text", words, x=x, y=y, text_anchor=anchor, class_=kind)

    def upright(self, kind: str, x: float, **attributes: object) -> None:
        """A line from the top of the plane to its bottom."""
        self.element("line", class_=kind, x1=x, x2=x, y1=self.top, y2=self.bottom, **attributes)

    def level(self, kind: str, y: float) -> None:
        """A line from the left of the plane to its right."""
        self.element("line", class_=kind, x1=self.left, x2=self.right, y1=y, y2=y)

    def x_axis(self, label: str, unit: Unit = "") -> None:
        for tick in ticks(*self._x, most=5 if self.width < 500 else 9):
            self.upright("grid", self.x(tick))
            self.text(self.x(tick), self.bottom + 14, _tick(tick, unit))
        self.text((self.left + self.right) / 2, self.height - 4, label, kind="label")

    def y_axis(self, label: str, unit: Unit) -> None:
        for tick in ticks(*self._y, most=5):
            self.level("grid", self.y(tick))
            self.text(self.left - 5, self.y(tick) + 3.5, _tick(tick, unit), "end")
        turned = f"translate(9 {(self.top + self.bottom) / 2}) rotate(-90)"
        self.element("text", label, class_="label", text_anchor="middle", transform=turned)

    def strip(self, spans: Sequence[Span]) -> None:
        """The true domains, as a thin strip on the axis."""
        for span in spans:
            self.box(span, self.bottom - STRIP, STRIP, f"{span.name}: {steps_of(span)}")

    def box(self, span: Span, top: float, height: float, tip: str, kind: str = "span") -> None:
        x, width = self.x(span.start), round(self.x(span.end) - self.x(span.start), 1)
        place = {"x": x, "y": top, "width": width, "height": height}
        self.element("rect", class_=kind, **place, style=f"fill:var(--{span.colour})", data_tip=tip)

    def marks(self, marks: Sequence[Mark]) -> None:
        for mark in marks:
            if mark.kind == "change":
                tip = f"{mark.text} at step {mark.x:g}"
                self.upright("change", self.x(mark.x), data_tip=tip)
            else:
                self.alarm(self.x(mark.x), self.top, mark.text)

    def alarm(self, x: float, y: float, tip: str, way: int = 1) -> None:
        """A triangle with its tip at the point, from above; from below with `way` -1."""
        shape = f"M{x - 5} {y - 3 * way}H{x + 5}L{x} {y + 6 * way}Z"
        self.element("path", class_="alarm", d=shape, data_tip=tip)

    def svg(self, title: str, hover: dict[str, Any] | None = None) -> Markup:
        attributes = {
            "class": "chart",
            "viewBox": f"0 0 {self.width} {self.height}",
            "role": "img",
            "aria-label": title,
        }
        if hover is not None:
            self.element("line", class_="cross", y1=self.top, y2=self.bottom)
            plane = {"left": self.left, "right": self.right, "x": list(self._x)}
            attributes["data-hover"] = json.dumps(plane | hover, separators=(",", ":"))
        inside = Markup("").join(self._elements)
        return Markup("<svg {}>{}</svg>").format(_attributes(attributes), inside)


def _attributes(values: dict[str, Any]) -> Markup:
    pairs = ((name.rstrip("_").replace("_", "-"), value) for name, value in values.items())
    return Markup(" ").join(Markup('{}="{}"').format(name, value) for name, value in pairs)


def _tick(value: float, unit: Unit) -> str:
    if unit == "%":
        return f"{100 * value:g}"
    return f"{100 * value:+g}" if unit == "points" and value else f"{value:,g}"


def steps_of(span: Span) -> str:
    return f"steps {span.start:g} to {span.end:g}"
