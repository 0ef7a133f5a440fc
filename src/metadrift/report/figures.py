"""The charts as PNG, SVG and PDF files, the tables as Markdown, LaTeX and CSV, for papers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from metadrift.report.charts import Chart, DotChart, LineChart, RibbonChart, Span, StackChart
from metadrift.report.drawing import figure, figure_files
from metadrift.report.scores import accuracy_dots
from metadrift.report.sections import sections_of
from metadrift.report.subject import Group, Subject
from metadrift.report.tables import Table, comma_separated, latex, markdown, tables_of
from metadrift.storage.files import write_atomically

METHOD_COLOURS = "#3268c4 #d5760b #0b8f6a #bd3c86 #7656d1 #1089ad #8f5b34 #5d6b7c #c33d3d #7d8a12"
DOMAIN_COLOURS = "#8fb3e0 #f3bd74 #8fcfab #e59ab0 #baa6e2 #92d3da #d2bb97 #bcc474 #b3b6c4 #dba9d5"
FORMATS: dict[str, Callable[[Table], str]] = {
    "md": markdown,
    "tex": latex,
    "csv": comma_separated,
}


def write_figures(subject: Subject, folder: Path) -> list[Path]:
    """Write all files into the folder. Several learners or shots get one folder each."""
    written: list[Path] = []
    for group in subject.groups:
        home = folder / f"{group.learner}-{group.shots}shot" if len(subject.groups) > 1 else folder
        home.mkdir(parents=True, exist_ok=True)
        for table in tables_of(group):
            for ending, render in FORMATS.items():
                written.append(home / f"{table.slug}.{ending}")
                write_atomically(written[-1], render(table))
        for name, chart in _named(group):
            written += _draw(chart, home / name)
    return written


def _named(group: Group) -> list[tuple[str, Chart]]:
    """Every chart with its file name. All names are different."""
    charts = accuracy_dots(group) + [c for section in sections_of(group) for c in section.charts]
    names: list[str] = []
    for chart in charts:
        again = names.count(chart.slug)
        names.append(chart.slug if not again else f"{chart.slug}-{again + 1}")
    return list(zip(names, charts, strict=True))


def _draw(chart: Chart, stem: Path) -> list[Path]:
    painters: dict[type[Chart], Callable[[Any, Any], None]] = {
        LineChart: _line,
        StackChart: _stack,
        DotChart: _dots,
        RibbonChart: _ribbon,
    }
    wide = isinstance(chart, RibbonChart) or bool(getattr(chart, "marks", ()))
    width = 7.0 if wide else 5.0 if isinstance(chart, StackChart | DotChart) else 3.6
    with figure(stem, (width, _height(chart)), chart.title) as axes:
        painters[type(chart)](axes, chart)
    return figure_files(stem)


def _line(axes: Any, chart: LineChart) -> None:
    factor = 100 if chart.unit == "%" else 1
    for series in chart.series:
        y = [float("nan") if v is None else factor * v for v in series.y]
        style: dict[str, Any] = {"ls": "--" if series.dashed else "-"}
        style["marker"] = "o" if series.dots else None
        style |= {"lw": 1.2, "ms": 2.5, "clip_on": not series.dots}  # the last dot is on the edge
        axes.plot(series.x, y, label=series.name, c=_hex(series.colour), **style)
        if series.low:
            ends = ([factor * (v or 0.0) for v in side] for side in (series.low, series.high))
            axes.fill_between(series.x, *ends, color=_hex(series.colour), alpha=0.15, lw=0)
    _shade(axes, chart.spans)
    for mark in chart.marks:
        if mark.kind == "change":
            axes.axvline(mark.x, c="#68727c", ls=":", lw=0.8)
        else:
            place = axes.get_xaxis_transform()  # inside the frame, clear of the title
            axes.plot([mark.x], [0.97], "v", c="#c93a3a", ms=4, transform=place, clip_on=False)
    axes.set(xlabel="step", ylabel=chart.y_label, xlim=(0, chart.steps))
    axes.legend(frameon=False, fontsize=7)


def _stack(axes: Any, chart: StackChart) -> None:
    rows = [[100 * (v or 0.0) for v in layer.y] for layer in chart.layers]
    colours = [_hex(layer.colour) for layer in chart.layers]
    names = [layer.name for layer in chart.layers]
    axes.stackplot(chart.x, rows, labels=names, colors=colours, lw=0)
    label = f"share of {chart.whole} %"
    axes.set(xlabel="step", ylabel=label, xlim=(0, chart.steps), ylim=(0, 100))
    handles, labels = axes.get_legend_handles_labels()
    _legend_beside(axes, handles[::-1], labels[::-1])  # in the order of the layers


def _dots(axes: Any, chart: DotChart) -> None:
    at, places, named = 0.0, [], set()
    for _, row in chart.rows:
        places.append(at + (len(row) - 1) / 2)
        for dot in row:
            label = dot.name if dot.name not in named and len(row) > 1 else None
            named.add(dot.name)
            ends = [[0.0], [0.0]]
            if dot.low is not None and dot.high is not None:
                ends = [[100 * (dot.value - dot.low)], [100 * (dot.high - dot.value)]]
            axes.errorbar(
                [100 * dot.value], [at], xerr=ends, fmt="o", c=_hex(dot.colour), ms=3.5, capsize=2,
                lw=1, label=label,
            )  # fmt: skip
            at += 1
        at += 0.8
    if chart.unit == "%":
        low, high = axes.get_xlim()
        axes.set_xlim(max(low, 0.0), min(high, 100.0))
    if chart.zero:
        axes.axvline(0, c="#1d2328", lw=0.8)
    axes.set_yticks(places, [name for name, _ in chart.rows])
    axes.set_ylim(at - 1.2, -0.6)  # the first row on top, with room around
    axes.set_xlabel(chart.x_label)
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        _legend_beside(axes, handles, labels)


def _ribbon(axes: Any, chart: RibbonChart) -> None:
    for number, row in enumerate(chart.rows):
        for span in row.spans:
            long = span.end - span.start
            axes.barh(number, long, left=span.start, color=_hex(span.colour), ec="w", height=0.6)
            if long > chart.steps * 0.012 * len(span.label):
                middle = span.start + long / 2
                axes.text(middle, number, span.label, ha="center", va="center", fontsize=7)
        at = [mark.x for mark in row.marks]
        axes.plot(at, [number + 0.42] * len(at), "^", c="#c93a3a", ms=4)
    if any(row.marks for row in chart.rows):
        axes.plot([], [], "^", c="#c93a3a", ms=4, label="change reported")
        axes.legend(
            frameon=False, fontsize=7, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0
        )
    axes.set_yticks(range(len(chart.rows)), [row.name for row in chart.rows])
    axes.invert_yaxis()
    axes.set(xlabel="step", xlim=(0, chart.steps))


def _legend_beside(axes: Any, handles: Any, labels: Any) -> None:
    """Put the legend to the right of the axes, where it covers nothing."""
    axes.legend(handles, labels, frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def _shade(axes: Any, spans: Any) -> None:
    """Shade the stays: in full height for one domain, as a strip at the bottom for several."""
    top = 1.0 if len({span.name for span in spans}) == 1 else 0.03
    span: Span
    for span in spans:
        axes.axvspan(
            span.start, span.end, ymax=top, color=_hex(span.colour), alpha=0.3 if top == 1 else 1.0
        )


def _height(chart: Chart) -> float:
    if isinstance(chart, DotChart):
        return 0.8 + 0.17 * sum(len(row) + 0.8 for _, row in chart.rows)
    return 0.8 + 0.35 * len(chart.rows) if isinstance(chart, RibbonChart) else 2.4


def _hex(colour: str) -> str:
    if colour[0] in "md" and colour[1:].isdigit():
        return (METHOD_COLOURS if colour[0] == "m" else DOMAIN_COLOURS).split()[int(colour[1:])]
    return "#1d2328"
