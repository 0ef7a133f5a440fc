"""The charts about memory and replay: what is kept, what is drawn, how steady that is."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from metadrift.report.charts import Chart, LineChart, Series, StackChart
from metadrift.report.lines import (
    colours_of,
    common_steps,
    curves,
    latent_spans,
    over_seeds,
    slug,
    spans_of,
    stays_of,
    steps_of,
)
from metadrift.report.subject import Group, Variant
from metadrift.report.thinning import averaged


def memory_over_time(group: Group) -> list[Chart]:
    """What the memory holds, by true domain, mean over the seeds; one chart a variant."""
    charts: list[Chart] = []
    colour = colours_of(group)
    for variant in group.variants:
        kept = [
            {line["step"]: line["memory_true"] for line in run.metrics if line.get("memory_true")}
            for run in variant.runs
        ]
        steps = common_steps([list(k) for k in kept if k])
        if not steps:
            continue
        found = [k for k in kept if k]
        names = [n for n in group.domains if any(k[steps[-1]].get(n) is not None for k in found)]
        shares = [
            (name, colour[name], [fmean(k[s].get(name) or 0.0 for k in found) for s in steps])
            for name in names
        ]
        file = f"memory-{slug(variant.name)}"
        charts.append(_stack(group, variant, "memory", file, variant.label, steps, shares))
    return charts


def replay_variance(group: Group) -> list[Chart]:
    """The variance of the replay gradient, PETS over uniform: its own estimate, and measured."""
    found = [
        ("variance-estimated", "Estimated by the sampler itself", curves(group, "variance_ratio")),
        ("variance-measured", "Measured with exact gradients", _measured(group, "pets")),
        (
            "variance-least",
            "The least that draws by cluster could reach",
            _measured(group, "least"),
        ),
    ]
    return [
        LineChart(slug, title, None, "step", "ratio", lines, steps=steps_of(group), from_zero=False)
        for slug, title, lines in found
        if lines
    ]


def sampling_over_time(group: Group) -> list[Chart]:
    """How likely each latent domain is at the next draw; a chart for each run that has several."""
    charts: list[Chart] = []
    stays, colour = stays_of(group), colours_of(group)
    for variant in group.variants:
        for run in variant.runs:
            lines = [line for line in run.metrics if line.get("sampling")]
            labels = sorted({int(label) for line in lines for label in line["sampling"]})
            if len(labels) < 2:
                continue
            steps = [float(line["step"]) for line in lines]
            found = {int(span.label): span for span in latent_spans(run, stays, colour)}
            shares = []
            for label in labels:
                span = found.get(label)
                name, shade = (span.name, span.colour) if span else (f"latent {label}", "muted")
                chances = [line["sampling"].get(str(label), 0.0) for line in lines]
                shares.append((name, shade, chances))
            seed = run.config.seed
            file = f"sampling-{slug(variant.name)}-seed{seed}"
            title = f"{variant.label}, seed {seed}"
            charts.append(_stack(group, variant, "draws", file, title, steps, shares))
    return charts


def _stack(
    group: Group,
    variant: Variant,
    whole: str,
    file: str,
    title: str,
    steps: Sequence[float],
    shares: Sequence[tuple[str, str, Sequence[float]]],
) -> StackChart:
    """Name, colour and share at each step of the parts, one upon the other."""
    thinned = [(name, colour, averaged(steps, share)) for name, colour, share in shares]
    layers = [Series(name, x, y, colour) for name, colour, (x, y) in thinned]
    stays = spans_of(stays_of(group), colours_of(group))
    x = layers[0].x if layers else ()
    return StackChart(file, title, variant.key, whole, x, layers, stays, steps_of(group))


def _measured(group: Group, trace: str) -> list[Series]:
    """A trace of ReplayVariance as a share of that of uniform replay, one line a variant."""
    lines = []
    for variant in group.variants:
        seeds = [
            {
                int(e["step"]): e[trace] / e["uniform"]
                for e in run.happened("variance")
                if trace in e and e["uniform"] > 0  # a single stored batch has no variance
            }
            for run in variant.runs
        ]
        lines.append(over_seeds(variant, [seed for seed in seeds if seed], dots=True))
    return [line for line in lines if line]
