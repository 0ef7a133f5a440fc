"""From the runs of a group to its charts. What was not recorded gives no chart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from metadrift.report.charts import (
    DOMAINS,
    METHODS,
    Chart,
    LineChart,
    Mark,
    Ribbon,
    RibbonChart,
    Series,
    Span,
    StackChart,
)
from metadrift.report.subject import Group, RunData, Variant
from metadrift.report.thinning import Points, averaged, peaks_kept


def accuracy_over_time(group: Group) -> list[Chart]:
    """One chart a domain: accuracy on its unseen classes after each stay of the stream."""
    charts: list[Chart] = []
    stays, colour = _stays(group), _colours(group)
    for name in group.domains:
        lines = [line for v in group.variants if (line := _stages(v, name))]
        if lines:
            here = [s for s in _spans(stays, colour) if s.name == name]
            charts.append(
                LineChart(
                    f"over-time-{_slug(name)}",
                    name,
                    None,
                    "step",
                    "accuracy %",
                    lines,
                    "%",
                    spans=here,
                    steps=_steps(group),
                )
            )
    return charts


def stream_ribbon(group: Group) -> list[Chart]:
    """The true domains along the stream, and below them those that each run made for itself."""
    stays = _stays(group)
    if not stays:
        return []
    colour = _colours(group)
    rows = [Ribbon("true domains", _spans(stays, colour))]
    for variant, run in _detecting(group):
        changes = run.happened("change")
        seed = f", seed {run.config.seed}" if len(variant.runs) > 1 else ""
        rows.append(
            Ribbon(
                f"{variant.label}{seed}",
                _latent(run, changes, stays, colour),
                [_alarm(change, stays) for change in changes],
                variant.key,
            )
        )
    return [RibbonChart("stream", "The stream: true and latent domains", None, rows, _steps(group))]


def statistics(group: Group) -> list[Chart]:
    """The detector's statistic against its threshold, for each run that has one."""
    charts: list[Chart] = []
    stays, colour = _stays(group), _colours(group)
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
                f"statistic-{_slug(variant.name)}-seed{run.config.seed}",
                f"{variant.label}, seed {run.config.seed}",
                variant.key,
                "step",
                "statistic",
                lines,
                marks=[*changes, *(_alarm(change, stays) for change in run.happened("change"))],
                spans=_spans(stays, colour),
                steps=_steps(group),
            )
        )
    return charts


def memory_over_time(group: Group) -> list[Chart]:
    """What the memory holds, by true domain, mean over the seeds; one chart a variant."""
    charts: list[Chart] = []
    stays, colour = _stays(group), _colours(group)
    for variant in group.variants:
        kept = [
            {line["step"]: line["memory_true"] for line in run.metrics if line.get("memory_true")}
            for run in variant.runs
        ]
        steps = _common([list(k) for k in kept if k])
        if not steps:
            continue
        found = [k for k in kept if k]
        names = [n for n in group.domains if any(k[steps[-1]].get(n) is not None for k in found)]
        layers = []
        thin: list[float] = []
        for name in names:
            share = [fmean(k[s].get(name) or 0.0 for k in found) for s in steps]
            thin, y = averaged(steps, share)
            layers.append(Series(name, thin, y, colour[name]))
        charts.append(
            StackChart(
                f"memory-{_slug(variant.name)}",
                variant.label,
                variant.key,
                thin,
                layers,
                _spans(stays, colour),
                _steps(group),
            )
        )
    return charts


def replay_variance(group: Group) -> list[Chart]:
    """The variance of the replay gradient, PETS over uniform: its own estimate, and measured."""
    estimated = _curves(group, "variance_ratio")
    measured = [line for v in group.variants if (line := _measured(v))]
    found = [
        ("variance-estimated", "Estimated by the sampler itself", estimated),
        ("variance-measured", "Measured with exact gradients", measured),
    ]
    return [
        LineChart(slug, title, None, "step", "ratio", lines, steps=_steps(group), from_zero=False)
        for slug, title, lines in found
        if lines
    ]


def learning_curves(group: Group) -> list[Chart]:
    """Loss and accuracy on the arriving tasks, and the loss on the replayed ones."""
    stays, colour = _stays(group), _colours(group)
    found = [
        ("accuracy", "Accuracy on arriving tasks", "%"),
        ("loss", "Loss on arriving tasks", ""),
        ("replay_loss", "Loss on replayed tasks", ""),
    ]
    charts: list[Chart] = []
    for key, title, unit in found:
        lines = _curves(group, key)
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
                    spans=_spans(stays, colour),
                    steps=_steps(group),
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


def _latent(
    run: RunData,
    changes: Sequence[dict[str, Any]],
    stays: list[tuple[str, int, int]],
    colour: dict[str, str],
) -> list[Span]:
    starts = [0, *(int(change["started_at"]) for change in changes)]
    spans = []
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], run.step], strict=True)):
        inside = Counter(
            {f"{n} {a}": min(end, b) - max(start, a) for n, a, b in stays if a < end and b > start}
        )
        if not inside:
            continue
        most = inside.most_common(1)[0][0].rsplit(" ", 1)[0]
        spans.append(Span(start, end, f"latent {number}, mostly {most}", colour[most], str(number)))
    return spans


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
    return _over_seeds(variant, [t for t in tests if t], dots=True)


def _measured(variant: Variant) -> Series | None:
    found = [{int(e["step"]): e["ratio"] for e in r.happened("variance")} for r in variant.runs]
    return _over_seeds(variant, [f for f in found if f], dots=True)


def _curves(group: Group, key: str) -> list[Series]:
    lines = []
    for variant in group.variants:
        seeds = [
            {int(line["step"]): line[key] for line in run.metrics if line.get(key) is not None}
            for run in variant.runs
        ]
        line = _over_seeds(variant, [s for s in seeds if s])
        if line:
            lines.append(line)
    return lines


def _over_seeds(
    variant: Variant, seeds: list[dict[int, float]], dots: bool = False
) -> Series | None:
    """The mean over seeds at the steps that all of them have, with the band."""
    steps = _common([list(seed) for seed in seeds])
    if not steps:
        return None
    each = [[seed[int(s)] for seed in seeds] for s in steps]
    x, y = averaged(steps, [fmean(values) for values in each])
    low: Points = averaged(steps, [min(values) for values in each])
    high: Points = averaged(steps, [max(values) for values in each])
    band = (low[1], high[1]) if len(seeds) > 1 else ((), ())
    colour = f"m{variant.key % METHODS}"
    return Series(variant.label, x, y, colour, variant.key, False, dots, *band)


def _common(lists: list[list[int]]) -> list[float]:
    if not lists:
        return []
    return [float(s) for s in sorted(set(lists[0]).intersection(*lists[1:]))]


def _stays(group: Group) -> list[tuple[str, int, int]]:
    return next((stays for run in group.runs if (stays := run.stays())), [])


def _steps(group: Group) -> float:
    return float(max((run.steps for run in group.runs), default=0) or 1)


def _colours(group: Group) -> dict[str, str]:
    return {name: f"d{number % DOMAINS}" for number, name in enumerate(group.domains)}


def _spans(stays: list[tuple[str, int, int]], colour: dict[str, str]) -> list[Span]:
    return [Span(first, end, name, colour[name], name) for name, first, end in stays]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"
