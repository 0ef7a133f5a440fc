"""Charts as inline SVG: text and lines take their colours from the page's CSS variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from metadrift.report.charts import (
    Chart,
    Dot,
    DotChart,
    LineChart,
    RibbonChart,
    StackChart,
    Unit,
    shown,
)
from metadrift.report.frame import BOTTOM, TOP, Frame, steps_of


def draw(chart: Chart, width: int = 380) -> Markup:
    """The chart as an <svg> of this width in its own units."""
    if isinstance(chart, LineChart):
        return _line(chart, width)
    if isinstance(chart, StackChart):
        return _stack(chart, width)
    if isinstance(chart, DotChart):
        return _dots(chart, width)
    assert isinstance(chart, RibbonChart)
    return _ribbon(chart, width)


def _line(chart: LineChart, width: int) -> Markup:
    values = [v for s in chart.series for ys in (s.y, s.low, s.high) for v in ys if v is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if chart.unit == "%":
        low, high = max(0.0, low - 0.03), min(1.0, high + 0.03)
    else:
        low = min(low, 0.0) if chart.from_zero else low
        room = 0.06 * ((high - low) or 1.0)
        low, high = low - (room if chart.spans or not chart.from_zero else 0.0), high + room
    end = chart.steps or max((x for s in chart.series for x in s.x), default=1.0)
    frame = Frame(width, 220 if width > 500 else 200, 46, (0.0, end), (low, high))
    one = len({span.name for span in chart.spans}) == 1
    if one:  # the chart is about this domain: shade its stays
        for span in chart.spans:
            frame.box(span, frame.top, frame.bottom - frame.top, steps_of(span), "shade")
    frame.x_axis(chart.x_label)
    frame.y_axis(chart.y_label, chart.unit)
    if not one:
        frame.strip(chart.spans)
    for series in chart.series:
        frame.add('<g data-variant="{v}">', v="" if series.variant is None else series.variant)
        if series.low:
            up = _path(frame, series.x, series.high)
            back = _path(frame, list(reversed(series.x)), list(reversed(series.low)))
            if up and back:
                frame.add(
                    '<path class="band" d="{d}Z" style="fill:var(--{c})"/>',
                    d=up + "L" + back[1:],
                    c=series.colour,
                )
        frame.add(
            '<path class="line{k}" d="{d}" style="stroke:var(--{c})"/>',
            k=" dashed" if series.dashed else "",
            d=_path(frame, series.x, series.y),
            c=series.colour,
        )
        if series.dots or len(series.x) == 1:
            for x, y in zip(series.x, series.y, strict=True):
                if y is not None:
                    frame.add(
                        '<circle cx="{x}" cy="{y}" r="2.6" style="fill:var(--{c})"/>',
                        x=frame.x(x),
                        y=frame.y(y),
                        c=series.colour,
                    )
        frame.add("</g>")
    frame.marks(chart.marks)
    return frame.svg(chart.title, _hover(chart.series, chart.unit))


def _stack(chart: StackChart, width: int) -> Markup:
    frame = Frame(width, 200, 46, (0.0, chart.steps), (-0.07, 1.0))
    frame.x_axis("step")
    frame.y_axis(f"share of {chart.whole}", "%")
    below = [0.0] * len(chart.x)
    for layer in chart.layers:
        above = [b + (y or 0.0) for b, y in zip(below, layer.y, strict=True)]
        up = _path(frame, chart.x, above)
        back = _path(frame, list(reversed(chart.x)), list(reversed(below)))
        frame.add(
            '<path class="layer" d="{d}Z" style="fill:var(--{c})"/>',
            d=up + "L" + back[1:],
            c=layer.colour,
        )
        below = above
    frame.strip(chart.spans)
    return frame.svg(f"{chart.whole} of {chart.title}", _hover(list(reversed(chart.layers)), "%"))


def _dots(chart: DotChart, width: int) -> Markup:
    dots = [dot for _, row in chart.rows for dot in row]
    values = [v for d in dots for v in (d.value, d.low, d.high, *d.each) if v is not None]
    values += [0.0] if chart.zero else []
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.06 * ((high - low) or 0.1)
    low, high = low - room, high + room
    if chart.unit == "%":
        low, high = max(0.0, low), min(1.0, high)
    pitch, gap = 13, 12
    height = TOP + BOTTOM + sum(len(row) * pitch + gap for _, row in chart.rows)
    longest = max((len(name) for name, _ in chart.rows), default=0)
    left = min(20 + 6.2 * longest, 0.4 * width)
    frame = Frame(width, height, round(left), (low, high), (0.0, 1.0))
    frame.x_axis(chart.x_label, chart.unit)
    if chart.zero:
        frame.add(
            '<line class="zero" x1="{x}" x2="{x}" y1="{a}" y2="{b}"/>',
            x=frame.x(0.0),
            a=frame.top,
            b=frame.bottom,
        )
    at = float(TOP)
    for name, row in chart.rows:
        middle = at + (len(row) * pitch + gap) / 2
        frame.text(frame.left - 8, middle + 4, _short(name, frame.left - 12), "end", "name")
        for number, dot in enumerate(row):
            y = at + gap / 2 + pitch * (number + 0.5)
            _one_dot(frame, chart, name, dot, y, low, high)
        at += len(row) * pitch + gap
        frame.add(
            '<line class="grid" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>',
            a=frame.left,
            b=frame.right,
            y=at,
        )
    return frame.svg(chart.title)


def _one_dot(
    frame: Frame, chart: DotChart, row: str, dot: Dot, y: float, low: float, high: float
) -> None:
    tip = f"{dot.name}: {shown(dot.value, chart.unit)}"
    if row != dot.name and chart.unit == "%":
        tip = f"{row}, {tip}"
    if dot.low is not None and dot.high is not None:
        tip += f" [{shown(dot.low, chart.unit)}, {shown(dot.high, chart.unit)}]"
    frame.add(
        '<g data-variant="{v}" data-tip="{t}" style="color:var(--{c})">',
        v=dot.variant,
        t=tip,
        c=dot.colour,
    )
    frame.add(
        '<rect class="target" x="{x}" y="{y}" width="{w}" height="13"/>',
        x=frame.left,
        y=y - 6.5,
        w=frame.right - frame.left,
    )
    if dot.low is not None and dot.high is not None:
        frame.add(
            '<path class="whisker" d="M{a} {t}v6m0 -3H{b}m0 -3v6"/>',
            a=frame.x(max(dot.low, low)),
            t=y - 3,
            b=frame.x(min(dot.high, high)),
        )
    for value in dot.each:
        frame.add('<circle class="seed" cx="{x}" cy="{y}" r="2"/>', x=frame.x(value), y=y)
    frame.add('<circle class="dot" cx="{x}" cy="{y}" r="4.2"/></g>', x=frame.x(dot.value), y=y)


def _ribbon(chart: RibbonChart, width: int) -> Markup:
    pitch, thick = 44, 20
    height = TOP + BOTTOM + pitch * len(chart.rows)
    frame = Frame(width, height, 10, (0.0, chart.steps), (0.0, 1.0))
    frame.x_axis("step")
    for number, row in enumerate(chart.rows):
        top = TOP + pitch * number + 15
        frame.add('<g data-variant="{v}">', v="" if row.variant is None else row.variant)
        frame.text(frame.left, top - 4, row.name, "start", "name")
        for span in row.spans:
            frame.box(span, top, thick, f"{span.name}: {steps_of(span)}")
            long = frame.x(span.end) - frame.x(span.start)
            if long > 6.5 * len(span.label) + 4:
                middle = (frame.x(span.start) + frame.x(span.end)) / 2
                frame.text(middle, top + thick / 2 + 4, span.label, kind="on")
        for mark in row.marks:
            frame.alarm(frame.x(mark.x), top + thick + 4, mark.text, -1)
        frame.add("</g>")
    return frame.svg(chart.title)


def _hover(series: Sequence[Any], unit: Unit) -> dict[str, Any]:
    """What the pointer reads off: names, colours, and the values already as text."""
    return {
        "series": [
            {
                "name": s.name,
                "colour": s.colour,
                "variant": s.variant,
                "x": list(s.x),
                "y": [shown(y, unit) for y in s.y],
            }
            for s in series
        ]
    }


def _path(frame: Frame, xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """A line through the points; a missing value leaves a gap."""
    pieces, pen = [], "M"
    for x, y in zip(xs, ys, strict=True):
        if y is None:
            pen = "M"
            continue
        pieces.append(f"{pen}{frame.x(x):g} {frame.y(y):g}")
        pen = "L"
    return "".join(pieces)


def _short(name: str, room: float) -> str:
    """A name that fits; the mark of an oracle or a bound is never what is cut off."""
    most = max(14, int(room / 6.2))
    if len(name) <= most:
        return name
    mark = next((m for m in (" (oracle)", " (upper bound)") if name.endswith(m)), "")
    return name[: most - 1 - len(mark)] + "…" + mark
