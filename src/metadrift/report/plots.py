"""From the runs of a group to its charts. What was not recorded gives no chart."""

from __future__ import annotations

from typing import Any

from metadrift.report.charts import (
    METHODS,
    Chart,
    LineChart,
    Mark,
    Ribbon,
    RibbonChart,
    Series,
)
from metadrift.report.lines import (
    colours_of,
    curves,
    latent_spans,
    over_seeds,
    slug,
    spans_of,
    stays_of,
    steps_of,
)
from metadrift.report.subject import Group, RunData, Variant
from metadrift.report.thinning import peaks_kept


def accuracy_over_time(group: Group) -> list[Chart]:
    """One chart a domain: accuracy on its unseen classes after each stay of the stream."""
    charts: list[Chart] = []
    stays, colour = stays_of(group), colours_of(group)
    for name in group.domains:
        lines = [line for v in group.variants if (line := _stages(v, name))]
        if lines:
            here = [s for s in spans_of(stays, colour) if s.name == name]
            charts.append(
                LineChart(
                    f"over-time-{slug(name)}",
                    name,
                    None,
                    "step",
                    "accuracy %",
                    lines,
                    "%",
                    spans=here,
                    steps=steps_of(group),
                )
            )
    return charts


def stream_ribbon(group: Group) -> list[Chart]:
    """The true domains along the stream, and below them those that each run made for itself."""
    stays = stays_of(group)
    if not stays:
        return []
    colour = colours_of(group)
    rows = [Ribbon("true domains", spans_of(stays, colour))]
    for variant, run in _detecting(group):
        changes = run.happened("change")
        seed = f", seed {run.config.seed}" if len(variant.runs) > 1 else ""
        rows.append(
            Ribbon(
                f"{variant.label}{seed}",
                latent_spans(run, stays, colour),
                [_alarm(change, stays) for change in changes],
                variant.key,
            )
        )
    return [
        RibbonChart("stream", "The stream: true and latent domains", None, rows, steps_of(group))
    ]


def statistics(group: Group) -> list[Chart]:
    """The detector's statistic against its threshold, for each run that has one."""
    charts: list[Chart] = []
    stays, colour = stays_of(group), colours_of(group)
    for variant, run in _detecting(group):
        steps = [float(line["step"]) for line in run.metrics]
        pairs = [
            (name, peaks_kept(steps, [line.get(name) for line in run.metrics]))
            for name in ("statistic", "threshold")
        ]
        if not any(y is not None for _, (_, values) in pairs for y in values):
            continue
        look = {"statistic": (f"m{variant.key % METHODS}", False), "threshold": ("ink", True)}
        lines = [Series(n, x, y, look[n][0], dashed=look[n][1]) for n, (x, y) in pairs]
        changes = [Mark(first, "change", f"{name} begins") for name, first, _ in stays[1:]]
        charts.append(
            LineChart(
                f"statistic-{slug(variant.name)}-seed{run.config.seed}",
                f"{variant.label}, seed {run.config.seed}",
                variant.key,
                "step",
                "statistic",
                lines,
                marks=[*changes, *(_alarm(change, stays) for change in run.happened("change"))],
                spans=spans_of(stays, colour),
                steps=steps_of(group),
            )
        )
    return charts


def learning_curves(group: Group) -> list[Chart]:
    """Loss and accuracy on the arriving tasks, and the loss on the replayed ones."""
    stays, colour = stays_of(group), colours_of(group)
    found = [
        ("accuracy", "Accuracy on arriving tasks", "%"),
        ("loss", "Loss on arriving tasks", ""),
        ("replay_loss", "Loss on replayed tasks", ""),
    ]
    charts: list[Chart] = []
    for key, title, unit in found:
        lines = curves(group, key)
        if lines:
            slug = f"training-{key.replace('_', '-')}"
            label = "accuracy %" if unit == "%" else "loss"
            charts.append(
                LineChart(
                    slug,
                    title,
                    None,
                    "step",
                    label,
                    lines,
                    "%" if unit == "%" else "",
                    spans=spans_of(stays, colour),
                    steps=steps_of(group),
                )
            )
    return charts


def _detecting(group: Group) -> list[tuple[Variant, RunData]]:
    """The runs whose method watches for changes."""
    return [
        (variant, run)
        for variant in group.variants
        for run in variant.runs
        if run.happened("change") or any(line.get("threshold") is not None for line in run.metrics)
    ]


def _alarm(change: dict[str, Any], stays: list[tuple[str, int, int]]) -> Mark:
    at = int(change["at_step"])
    before = [first for _, first, _ in stays[1:] if first <= at]
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
    return over_seeds(variant, [t for t in tests if t], dots=True)
