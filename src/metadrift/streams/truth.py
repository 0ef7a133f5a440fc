"""The truth about a stream: which domain at which step. For the evaluator only.

No TaskBatch, stream batch or method holds a reference to it.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

from metadrift.streams.benchmark import Segment


class Truth:
    """Which domain a step belongs to, and where the changes are.

    Examples
    --------
    >>> truth = Truth([Segment("a", 3), Segment("b", 2), Segment("a", 4)])
    >>> truth.domain_at(2), truth.domain_at(3), truth.changes, truth.ends
    ('a', 'b', [3, 5], [3, 5, 9])
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        merged = [
            list(stay)
            for _, stay in itertools.groupby(segments, key=lambda segment: segment.domain)
        ]
        self._names: list[str] = [stay[0].domain for stay in merged]
        self._blends = [stay[0].blend for stay in merged]
        self.ends = list(itertools.accumulate(sum(s.steps for s in stay) for stay in merged))
        """The step after the last of each stay."""

    @property
    def changes(self) -> list[int]:
        """The first step of every stay but the first."""
        return self.ends[:-1]

    @property
    def domains(self) -> list[str]:
        return list(dict.fromkeys(self._names))

    @property
    def stays(self) -> list[str]:
        """The domain of each stay, in order."""
        return list(self._names)

    def domain_at(self, step: int) -> str:
        """The domain that the batch of this step (from 0) came from.

        Where two domains blend, it is the one that begins.
        """
        return self._names[self._stay_at(step)]

    def blend_at(self, step: int) -> tuple[str, float]:
        """The domain before, and the probability that a task of this step still comes from it."""
        stay = self._stay_at(step)
        if stay == 0:
            return self._names[0], 0.0
        blend, done = self._blends[stay], step - self.ends[stay - 1]
        return self._names[stay - 1], max(0.0, 1 - (done + 0.5) / blend) if blend else 0.0

    def _stay_at(self, step: int) -> int:
        if not 0 <= step < self.ends[-1]:
            raise IndexError(f"step {step} is outside 0..{self.ends[-1] - 1}")
        return bisect.bisect_right(self.ends, step)
