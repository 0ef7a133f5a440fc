"""Charts of memory and replay: contents, draws, and the variance of the replay gradient."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from metadrift.report.charts import Chart, LineChart, Series, StackChart
from metadrift.report.lines import (
    common_steps,
    curves,
    domain_colours,
    latent_spans,
    over_seeds,
    slug,
    true_spans,
)
from metadrift.report.subject import Group, Variant
from metadrift.report.thinning import averaged

Layer = tuple[str, str, Sequence[float]]  # name, colour, and share at each step


def memory_over_time(group: Group) -> list[Chart]:
    """The memory's contents by true domain, mean over the seeds; one chart per variant."""
    charts: list[Chart] = []
    colour = domain_colours(group)
    for variant in group.variants:
        kept = [
            {line["step"]: line["memory_true"] for line in run.metrics if line.get("memory_true")}
            for run in variant.runs
        ]
        known = [seed for seed in kept if seed]
        steps = common_steps(known)
        if not steps:
            continue
        names = [n for n in group.domains if any(k[steps[-1]].get(n) is not None for k in known)]
        layers: list[Layer] = [
            (name, colour[name], [fmean(k[s].get(name) or 0.0 for k in known) for s in steps])
            for name in names
        ]
        file = f"memory-{slug(variant.name)}"
        charts.append(_stack(group, variant, "memory", file, variant.label, steps, layers))
    return charts


def replay_variance(group: Group) -> list[Chart]:
    """The variance of the replay gradient, PETS over uniform: estimated by PETS, and measured."""
    found = [
        ("estimated", "Estimated by the sampler itself", curves(group, "variance_ratio")),
        ("measured", "Measured with exact gradients", _measured(group, "pets")),
        ("least", "The least that draws by cluster could reach", _measured(group, "least")),
    ]
    steps = group.steps
    return [
        LineChart(f"variance-{name}", title, None, "ratio", lines, steps=steps, from_zero=False)
        for name, title, lines in found
        if lines
    ]


def sampling_over_time(group: Group) -> list[Chart]:
    """The probability of each latent domain at the next draw; one chart per run with several."""
    charts: list[Chart] = []
    for variant in group.variants:
        for run in variant.runs:
            lines = [line for line in run.metrics if line.get("sampling")]
            labels = sorted({int(label) for line in lines for label in line["sampling"]})
            if len(labels) < 2:
                continue
            steps = [float(line["step"]) for line in lines]
            found = {int(span.label): span for span in latent_spans(group, run)}
            layers: list[Layer] = []
            for label in labels:
                span = found.get(label)
                name, colour = (span.name, span.colour) if span else (f"latent {label}", "muted")
                chances = [line["sampling"].get(str(label), 0.0) for line in lines]
                layers.append((name, colour, chances))
            seed = run.config.seed
            file = f"sampling-{slug(variant.name)}-seed{seed}"
            title = f"{variant.label}, seed {seed}"
            charts.append(_stack(group, variant, "draws", file, title, steps, layers))
    return charts


def _stack(
    group: Group,
    variant: Variant,
    whole: str,
    file: str,
    title: str,
    steps: Sequence[float],
    layers: Sequence[Layer],
) -> StackChart:
    thinned = [(name, colour, averaged(steps, share)) for name, colour, share in layers]
    series = [Series(name, x, y, colour) for name, colour, (x, y) in thinned]
    x = series[0].x if series else ()
    spans = true_spans(group)
    return StackChart(file, title, variant.key, whole, x, series, spans, group.steps)


def _measured(group: Group, trace: str) -> list[Series]:
    """A trace of ReplayVariance as a share of that of uniform replay, one line per variant."""
    lines = []
    for variant in group.variants:
        seeds = [
            {
                int(event["step"]): event[trace] / event["uniform"]
                for event in run.happened("variance")
                if trace in event and event["uniform"] > 0  # one stored batch has no variance
            }
            for run in variant.runs
        ]
        lines.append(over_seeds(variant, seeds, dots=True))
    return [line for line in lines if line]
