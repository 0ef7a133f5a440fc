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
            (domain, sum(segment.steps for segment in stay))
            for domain, stay in itertools.groupby(segments, key=lambda segment: segment.domain)
        ]
        self._names: list[str] = [domain for domain, _ in merged]
        self.ends = list(itertools.accumulate(steps for _, steps in merged))
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
        """The domain that the batch of this step (from 0) came from."""
        if not 0 <= step < self.ends[-1]:
            raise IndexError(f"step {step} is outside 0..{self.ends[-1] - 1}")
        return self._names[bisect.bisect_right(self.ends, step)]
