"""The sections of a report that show charts, in order, with their headings and introductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from metadrift.report import plots, replay_plots, scores
from metadrift.report.charts import Chart
from metadrift.report.subject import Group


@dataclass(frozen=True)
class Section:
    """A section with its charts; there is none without charts."""

    slug: str
    heading: str
    words: str
    charts: list[Chart]


def sections_of(group: Group) -> list[Section]:
    """The sections that have charts."""
    found = [Section(slug, heading, words, make(group)) for slug, heading, words, make in SECTIONS]
    return [section for section in found if section.charts]


# id, heading, what to look at, and the function that makes the charts
SECTIONS: list[tuple[str, str, str, Callable[[Group], list[Chart]]]] = [
    (
        "by-domain",
        "Accuracy by domain",
        "Accuracy on unseen classes of every domain, after the whole stream. Whiskers are 95 % "
        "intervals over seeds, and small dots are the seeds. With one seed the intervals are over "
        "test tasks.",
        scores.domain_dots,
    ),
    (
        "over-time",
        "Accuracy by domain over time",
        "Each domain is tested after each stay. The stay in that domain is shaded: a fall to its "
        "right is forgetting. Bands go from the lowest to the highest seed.",
        plots.accuracy_over_time,
    ),
    (
        "stream",
        "The stream",
        "Above, the true domains, which the methods do not know. Below, the latent domains that "
        "each run found, each in the colour of the true domain of most of its steps. "
        "Triangles are alarms.",
        plots.stream_ribbon,
    ),
    (
        "detection",
        "Statistic against threshold",
        "An alarm is possible where the statistic passes the threshold. Dashed vertical lines are "
        "true changes, triangles are alarms, and the strip on the axis is the true domain.",
        plots.statistics,
    ),
    (
        "memory",
        "What the memory holds",
        "The share of the stored batches by true domain, mean over seeds. A short domain that "
        "keeps its band to the end was not crowded out. The strip on the axis is the true domain.",
        replay_plots.memory_over_time,
    ),
    (
        "sampling",
        "What is drawn from memory",
        "The probability of each latent domain at the next draw, one chart per run. PETS draws "
        "more often where gradients are large, and weighs each of these draws less. Latent domains "
        "are numbered in the order in which they were found.",
        replay_plots.sampling_over_time,
    ),
    (
        "replay",
        "Variance of the replay gradient",
        "Variance with PETS over variance with uniform draws. Below 1, PETS is steadier.",
        replay_plots.replay_variance,
    ),
    (
        "training",
        "Training",
        "Means over the logged steps and over seeds.",
        plots.learning_curves,
    ),
]
