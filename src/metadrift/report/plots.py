"""The charts of a group of runs. A number that was not recorded has no chart."""

from __future__ import annotations

from typing import Any

from metadrift.report.charts import Chart, LineChart, Mark, Ribbon, RibbonChart, Series, Unit
from metadrift.report.lines import (
    curves,
    latent_spans,
    over_seeds,
    slug,
    true_spans,
    variant_colour,
)
from metadrift.report.subject import Group, RunData, Variant
from metadrift.report.thinning import peaks_kept


def accuracy_over_time(group: Group) -> list[Chart]:
    """One chart per domain: accuracy on its unseen classes after each stay of the stream."""
    charts: list[Chart] = []
    for name in group.domains:
        lines = [line for variant in group.variants if (line := _stages(variant, name))]
        if lines:
            here = [span for span in true_spans(group) if span.name == name]
            file, steps = f"over-time-{slug(name)}", group.steps
            charts.append(LineChart(file, name, None, "accuracy %", lines, "%", (), here, steps))
    return charts


def stream_ribbon(group: Group) -> list[Chart]:
    """The true domains along the stream, above the latent domains of each run."""
    if not group.stays:
        return []
    rows = [Ribbon("true domains", true_spans(group))]
    for variant, run in _detecting(group):
        seed = f", seed {run.config.seed}" if len(variant.runs) > 1 else ""
        name, alarms = f"{variant.label}{seed}", _alarms(group, run)
        rows.append(Ribbon(name, latent_spans(group, run), alarms, variant.key))
    title = "The stream: true and latent domains"
    return [RibbonChart("stream", title, None, rows, group.steps)]


def statistics(group: Group) -> list[Chart]:
    """The detector's statistic against its threshold, for each run that has one."""
    charts: list[Chart] = []
    for variant, run in _detecting(group):
        colour = variant_colour(variant)
        lines = [_watched(run, "statistic", colour), _watched(run, "threshold", "ink", True)]
        if not any(value is not None for line in lines for value in line.y):
            continue
        seed = run.config.seed
        changes = [Mark(first, "change", f"{name} begins") for name, first, _ in group.stays[1:]]
        charts.append(
            LineChart(
                f"statistic-{slug(variant.name)}-seed{seed}",
                f"{variant.label}, seed {seed}",
                variant.key,
                "statistic",
                lines,
                marks=[*changes, *_alarms(group, run)],
                spans=true_spans(group),
                steps=group.steps,
            )
        )
    return charts


def learning_curves(group: Group) -> list[Chart]:
    """Loss and accuracy on the arriving tasks, and the loss on the replayed ones."""
    wanted: list[tuple[str, str, str, Unit]] = [
        ("accuracy", "Accuracy on arriving tasks", "accuracy %", "%"),
        ("loss", "Loss on arriving tasks", "loss", ""),
        ("replay_loss", "Loss on replayed tasks", "loss", ""),
    ]
    spans, steps = true_spans(group), group.steps
    return [
        LineChart(f"training-{slug(key)}", title, None, label, lines, unit, (), spans, steps)
        for key, title, label, unit in wanted
        if (lines := curves(group, key))
    ]


def _detecting(group: Group) -> list[tuple[Variant, RunData]]:
    """The runs whose method detects changes."""
    return [
        (variant, run)
        for variant in group.variants
        for run in variant.runs
        if run.happened("change") or any(line.get("threshold") is not None for line in run.metrics)
    ]


def _watched(run: RunData, name: str, colour: str, dashed: bool = False) -> Series:
    steps = [float(line["step"]) for line in run.metrics]
    x, y = peaks_kept(steps, [line.get(name) for line in run.metrics])
    return Series(name, x, y, colour, dashed=dashed)


def _alarms(group: Group, run: RunData) -> list[Mark]:
    return [_alarm(group, change) for change in run.happened("change")]


def _alarm(group: Group, change: dict[str, Any]) -> Mark:
    at = int(change["at_step"])
    before = [first for _, first, _ in group.stays[1:] if first <= at]
    late = f", {at - before[-1]} steps after the last true change" if before else ""
    return Mark(at, "alarm", f"alarm at step {at}{late}")


def _stages(variant: Variant, domain: str) -> Series | None:
    tests = [
        {
            int(event["step"]): event["accuracy"][domain]
            for event in run.happened("evaluation")
            if event["accuracy"].get(domain) is not None
        }
        for run in variant.runs
    ]
    return over_seeds(variant, tests, dots=True)
