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
    end = chart.steps or max((x for s in chart.series for x in s.x), default=1.0)
    frame = Frame(width, 220 if width > 500 else 200, 46, (0.0, end), _y_range(chart))
    one = len({span.name for span in chart.spans}) == 1
    if one:  # the chart is about this domain: shade its stays
        for span in chart.spans:
            frame.box(span, frame.top, frame.bottom - frame.top, steps_of(span), "shade")
    frame.x_axis("step")
    frame.y_axis(chart.y_label, chart.unit)
    if not one:
        frame.strip(chart.spans)
    for series in chart.series:
        frame.open_group(data_variant=_variant(series.variant))
        if series.low:
            _area(frame, "band", series.x, series.low, series.high, series.colour)
        kind = "line dashed" if series.dashed else "line"
        line, style = _path(frame, series.x, series.y), f"stroke:var(--{series.colour})"
        frame.element("path", class_=kind, d=line, style=style)
        if series.dots or len(series.x) == 1:
            for x, y in zip(series.x, series.y, strict=True):
                if y is not None:
                    place = {"cx": frame.x(x), "cy": frame.y(y), "r": 2.6}
                    frame.element("circle", **place, style=f"fill:var(--{series.colour})")
        frame.close_group()
    frame.marks(chart.marks)
    return frame.svg(chart.title, _hover(chart.series, chart.unit))


def _y_range(chart: LineChart) -> tuple[float, float]:
    values = [v for s in chart.series for ys in (s.y, s.low, s.high) for v in ys if v is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if chart.unit == "%":
        return max(0.0, low - 0.03), min(1.0, high + 0.03)
    low = min(low, 0.0) if chart.from_zero else low
    room = 0.06 * ((high - low) or 1.0)
    return low - (room if chart.spans or not chart.from_zero else 0.0), high + room


def _stack(chart: StackChart, width: int) -> Markup:
    frame = Frame(width, 200, 46, (0.0, chart.steps), (-0.07, 1.0))
    frame.x_axis("step")
    frame.y_axis(f"share of {chart.whole}", "%")
    below = [0.0] * len(chart.x)
    for layer in chart.layers:
        above = [b + (y or 0.0) for b, y in zip(below, layer.y, strict=True)]
        _area(frame, "layer", chart.x, below, above, layer.colour)
        below = above
    frame.strip(chart.spans)
    return frame.svg(f"{chart.whole} of {chart.title}", _hover(list(reversed(chart.layers)), "%"))


def _dots(chart: DotChart, width: int) -> Markup:
    low, high = _x_range(chart)
    pitch, gap = 13, 12
    height = TOP + BOTTOM + sum(len(row) * pitch + gap for _, row in chart.rows)
    longest = max((len(name) for name, _ in chart.rows), default=0)
    left = min(20 + 6.2 * longest, 0.4 * width)
    frame = Frame(width, height, round(left), (low, high), (0.0, 1.0))
    frame.x_axis(chart.x_label, chart.unit)
    if chart.zero:
        frame.upright("zero", frame.x(0.0))
    at = float(TOP)
    for name, row in chart.rows:
        middle = at + (len(row) * pitch + gap) / 2
        frame.text(frame.left - 8, middle + 4, _short(name, frame.left - 12), "end", "name")
        for number, dot in enumerate(row):
            y = at + gap / 2 + pitch * (number + 0.5)
            _one_dot(frame, chart, name, dot, y, low, high)
        at += len(row) * pitch + gap
        frame.level("grid", at)
    return frame.svg(chart.title)


def _x_range(chart: DotChart) -> tuple[float, float]:
    dots = [dot for _, row in chart.rows for dot in row]
    values = [v for d in dots for v in (d.value, d.low, d.high, *d.each) if v is not None]
    values += [0.0] if chart.zero else []
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.06 * ((high - low) or 0.1)
    low, high = low - room, high + room
    return (max(0.0, low), min(1.0, high)) if chart.unit == "%" else (low, high)


def _one_dot(
    frame: Frame, chart: DotChart, row: str, dot: Dot, y: float, low: float, high: float
) -> None:
    tip = f"{dot.name}: {shown(dot.value, chart.unit)}"
    if row != dot.name and chart.unit == "%":
        tip = f"{row}, {tip}"
    if dot.low is not None and dot.high is not None:
        tip += f" [{shown(dot.low, chart.unit)}, {shown(dot.high, chart.unit)}]"
    frame.open_group(data_variant=dot.variant, data_tip=tip, style=f"color:var(--{dot.colour})")
    wide = frame.right - frame.left
    frame.element("rect", class_="target", x=frame.left, y=y - 6.5, width=wide, height=13)
    if dot.low is not None and dot.high is not None:
        start, end = frame.x(max(dot.low, low)), frame.x(min(dot.high, high))
        frame.element("path", class_="whisker", d=f"M{start} {y - 3}v6m0 -3H{end}m0 -3v6")
    for value in dot.each:
        frame.element("circle", class_="seed", cx=frame.x(value), cy=y, r=2)
    frame.element("circle", class_="dot", cx=frame.x(dot.value), cy=y, r=4.2)
    frame.close_group()


def _ribbon(chart: RibbonChart, width: int) -> Markup:
    pitch, thick = 44, 20
    height = TOP + BOTTOM + pitch * len(chart.rows)
    frame = Frame(width, height, 10, (0.0, chart.steps), (0.0, 1.0))
    frame.x_axis("step")
    for number, row in enumerate(chart.rows):
        top = TOP + pitch * number + 15
        frame.open_group(data_variant=_variant(row.variant))
        frame.text(frame.left, top - 4, row.name, "start", "name")
        for span in row.spans:
            frame.box(span, top, thick, f"{span.name}: {steps_of(span)}")
            start, end = frame.x(span.start), frame.x(span.end)
            if end - start > 6.5 * len(span.label) + 4:
                frame.text((start + end) / 2, top + thick / 2 + 4, span.label, kind="on")
        for mark in row.marks:
            frame.alarm(frame.x(mark.x), top + thick + 4, mark.text, -1)
        frame.close_group()
    return frame.svg(chart.title)


def _variant(key: int | None) -> str:
    """The key by which the page hides an element. Empty: never hidden."""
    return "" if key is None else str(key)


def _area(
    frame: Frame,
    kind: str,
    x: Sequence[float],
    low: Sequence[float | None],
    high: Sequence[float | None],
    colour: str,
) -> None:
    """The area between two lines."""
    up, back = _path(frame, x, high), _path(frame, list(reversed(x)), list(reversed(low)))
    if up and back:
        frame.element("path", class_=kind, d=f"{up}L{back[1:]}Z", style=f"fill:var(--{colour})")


def _hover(series: Sequence[Any], unit: Unit) -> dict[str, Any]:
    """Data for the tooltip: names, colours, and the values as text."""
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
    """A line through the points, with a gap at a missing value."""
    pieces, pen = [], "M"
    for x, y in zip(xs, ys, strict=True):
        if y is None:
            pen = "M"
            continue
        pieces.append(f"{pen}{frame.x(x):g} {frame.y(y):g}")
        pen = "L"
    return "".join(pieces)


def _short(name: str, room: float) -> str:
    """A name cut to fit. The mark of an oracle or a bound is kept."""
    most = max(14, int(room / 6.2))
    if len(name) <= most:
        return name
    mark = next((m for m in (" (oracle)", " (upper bound)") if name.endswith(m)), "")
    return name[: most - 1 - len(mark)] + "…" + mark
