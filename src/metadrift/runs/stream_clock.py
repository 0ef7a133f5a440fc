"""Turn a method's count of learned batches into steps of the stream."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any


class StreamClock:
    """Turns a method's count into steps of the stream. They differ by the skipped steps.

    Detector and memory count the batches they receive. With `--on-nan skip` they do not receive a
    step whose loss is not finite, so their counts fall behind the stream.

    Examples
    --------
    >>> clock = StreamClock()
    >>> for step in (2, 3, 7):
    ...     clock.leave_out(step)
    >>> [clock.stream_step(count) for count in range(7)]
    [0, 1, 4, 5, 6, 8, 9]
    """

    def __init__(self) -> None:
        self._learned_before: list[int] = []  # for each skipped step: batches learned before it

    def leave_out(self, step: int) -> None:
        """Note that this step was skipped. Steps must come in ascending order."""
        self._learned_before.append(step - len(self._learned_before))

    def stream_step(self, count: int) -> int:
        """The step at which batch number `count` (from 0) arrived."""
        return count + bisect_right(self._learned_before, count)

    def state_dict(self) -> dict[str, Any]:
        return {"learned_before": list(self._learned_before)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._learned_before = [int(count) for count in state["learned_before"]]
