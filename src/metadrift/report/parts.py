"""The parts of a report that are charts, in their order, with the words above them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from metadrift.report import plots, replay_plots, scores
from metadrift.report.charts import Chart
from metadrift.report.subject import Group


@dataclass(frozen=True)
class Part:
    """A part that has something to show."""

    slug: str
    heading: str
    words: str
    charts: list[Chart]


def parts_of(group: Group) -> list[Part]:
    """What was recorded, part by part."""
    found = [Part(slug, heading, words, make(group)) for slug, heading, words, make in PARTS]
    return [part for part in found if part.charts]


# id, heading, what to look at, and who makes the charts
PARTS: list[tuple[str, str, str, Callable[[Group], list[Chart]]]] = [
    (
        "by-domain",
        "Accuracy by domain",
        "Unseen classes of every domain, after the whole stream. Whiskers are 95 % intervals over "
        "seeds, with the seeds as small dots; with one seed they are over test tasks.",
        scores.domain_dots,
    ),
    (
        "over-time",
        "Accuracy by domain over time",
        "Each domain is tested after each stay. The shaded part is the stay in that domain: what "
        "falls to its right was forgotten. Bands go from the lowest to the highest seed.",
        plots.accuracy_over_time,
    ),
    (
        "stream",
        "The stream",
        "Above, the domains as they came; nobody told the methods. Below, the latent domains that "
        "each run found, in the colour of the true domain that most of their steps belong to. "
        "Triangles are alarms.",
        plots.stream_ribbon,
    ),
    (
        "detection",
        "Statistic against threshold",
        "An alarm is possible where the statistic passes the threshold. Dashed uprights are true "
        "changes, triangles are alarms, the strip on the axis is the true domain.",
        plots.statistics,
    ),
    (
        "memory",
        "What the memory holds",
        "Share of the stored batches by true domain, mean over seeds. A short domain that keeps "
        "its band to the end was not crowded out. The strip on the axis is the true domain.",
        replay_plots.memory_over_time,
    ),
    (
        "sampling",
        "What is drawn from memory",
        "The probability of each latent domain at the next draw, a run each. Where PETS sees large "
        "gradients it draws more often and weighs each draw less. Latent domains are numbered in "
        "the order in which they were found.",
        replay_plots.sampling_over_time,
    ),
    (
        "replay",
        "Variance of the replay gradient",
        "PETS over uniform draws: below 1, PETS gives the steadier gradient.",
        replay_plots.replay_variance,
    ),
    (
        "training",
        "Training",
        "Means over the logged steps and over seeds, on tasks as they arrive.",
        plots.learning_curves,
    ),
]
