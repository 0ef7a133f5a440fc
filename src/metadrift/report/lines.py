"""Shared by the charts of a report: spans, colours, and mean lines over seeds."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from statistics import fmean

from metadrift.report.charts import DOMAINS, METHODS, Series, Span
from metadrift.report.subject import Group, RunData, Variant
from metadrift.report.thinning import averaged


def curves(group: Group, key: str) -> list[Series]:
    """One metric along the stream, one line per variant."""
    lines = []
    for variant in group.variants:
        seeds = [
            {int(line["step"]): line[key] for line in run.metrics if line.get(key) is not None}
            for run in variant.runs
        ]
        lines.append(over_seeds(variant, seeds))
    return [line for line in lines if line]


def over_seeds(
    variant: Variant, seeds: list[dict[int, float]], dots: bool = False
) -> Series | None:
    """The mean over the seeds that have values, at the steps they have in common."""
    known = [seed for seed in seeds if seed]
    steps = common_steps(known)
    if not steps:
        return None
    each = [[seed[int(step)] for seed in known] for step in steps]
    (x, y), (_, low), (_, high) = (averaged(steps, list(map(of, each))) for of in (fmean, min, max))
    band = (low, high) if len(known) > 1 else ((), ())
    return Series(variant.label, x, y, variant_colour(variant), variant.key, False, dots, *band)


def common_steps(seeds: list[dict[int, float]]) -> list[float]:
    """The steps that every seed has, in order."""
    return [float(step) for step in sorted(set(seeds[0]).intersection(*seeds[1:]))] if seeds else []


def variant_colour(variant: Variant) -> str:
    return f"m{variant.key % METHODS}"


def domain_colours(group: Group) -> dict[str, str]:
    return {name: f"d{number % DOMAINS}" for number, name in enumerate(group.domains)}


def true_spans(group: Group) -> list[Span]:
    """The stays of the stream in the colours of their domains."""
    colour = domain_colours(group)
    return [Span(first, end, name, colour[name], name) for name, first, end in group.stays]


def latent_spans(group: Group, run: RunData) -> list[Span]:
    """The latent domains of a run. Each has the colour of the true domain of most of its steps."""
    colour = domain_colours(group)
    stays = [*latent_stays(run), (run.step, -1)]
    spans = []
    for (start, number), (end, _) in itertools.pairwise(stays):
        inside: Counter[tuple[str, int]] = Counter()
        for name, first, last in group.stays:
            if first < end and last > start:
                inside[name, first] = min(end, last) - max(start, first)
        if inside:
            most = inside.most_common(1)[0][0][0]
            name = f"latent {number}, mostly {most}"
            spans.append(Span(start, end, name, colour[most], str(number)))
    return spans


def latent_stays(run: RunData) -> list[tuple[int, int]]:
    """First step and label of each stay in a latent domain, as is known in the end."""
    label_at = {0: 0}
    for event in run.happened("change", "returned"):
        if event["event"] == "change":
            label_at[int(event["started_at"])] = int(event.get("label", len(label_at)))
        else:
            label_at[int(event["since"])] = int(event["label"])
    found = sorted(label_at.items())
    return [stay for i, stay in enumerate(found) if i == 0 or stay[1] != found[i - 1][1]]


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "x"
