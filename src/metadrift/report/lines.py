"""What the charts of a report share: stays, colours, and the mean line over seeds."""

from __future__ import annotations

import re
from collections import Counter
from statistics import fmean

from metadrift.report.charts import DOMAINS, METHODS, Series, Span
from metadrift.report.subject import Group, RunData, Variant
from metadrift.report.thinning import Points, averaged


def curves(group: Group, key: str) -> list[Series]:
    """A number of the metrics along the stream, one line a variant."""
    lines = []
    for variant in group.variants:
        seeds = [
            {int(line["step"]): line[key] for line in run.metrics if line.get(key) is not None}
            for run in variant.runs
        ]
        line = over_seeds(variant, [s for s in seeds if s])
        if line:
            lines.append(line)
    return lines


def over_seeds(
    variant: Variant, seeds: list[dict[int, float]], dots: bool = False
) -> Series | None:
    """The mean over seeds at the steps that all of them have, with the band."""
    steps = common_steps([list(seed) for seed in seeds])
    if not steps:
        return None
    each = [[seed[int(s)] for seed in seeds] for s in steps]
    x, y = averaged(steps, [fmean(values) for values in each])
    low: Points = averaged(steps, [min(values) for values in each])
    high: Points = averaged(steps, [max(values) for values in each])
    band = (low[1], high[1]) if len(seeds) > 1 else ((), ())
    colour = f"m{variant.key % METHODS}"
    return Series(variant.label, x, y, colour, variant.key, False, dots, *band)


def common_steps(lists: list[list[int]]) -> list[float]:
    if not lists:
        return []
    return [float(s) for s in sorted(set(lists[0]).intersection(*lists[1:]))]


def stays_of(group: Group) -> list[tuple[str, int, int]]:
    return next((stays for run in group.runs if (stays := run.stays())), [])


def steps_of(group: Group) -> float:
    return float(max((run.steps for run in group.runs), default=0) or 1)


def colours_of(group: Group) -> dict[str, str]:
    return {name: f"d{number % DOMAINS}" for number, name in enumerate(group.domains)}


def spans_of(stays: list[tuple[str, int, int]], colour: dict[str, str]) -> list[Span]:
    return [Span(first, end, name, colour[name], name) for name, first, end in stays]


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"


def latent_spans(
    run: RunData, stays: list[tuple[str, int, int]], colour: dict[str, str]
) -> list[Span]:
    """The latent domains that a run found, in the colours of the true ones they mostly are."""
    starts = [0, *(int(change["started_at"]) for change in run.happened("change"))]
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
