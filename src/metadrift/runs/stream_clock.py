"""From a method's count of learned batches to steps of the stream."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any


class StreamClock:
    """From a method's own count to steps of the stream, which differ by the steps left out.

    Detector and memory number the batches that they were shown. A step whose loss was not finite
    was shown to neither (`--on-nan skip`), so a date of theirs is that many steps earlier than the
    stream's.

    Examples
    --------
    >>> clock = StreamClock()
    >>> for step in (2, 3, 7):
    ...     clock.leave_out(step)
    >>> [clock.stream_step(count) for count in range(7)]
    [0, 1, 4, 5, 6, 8, 9]
    """

    def __init__(self) -> None:
        self._learned_before: list[int] = []  # of each step left out: batches learned before it

    def leave_out(self, step: int) -> None:
        """This step of the stream, later than all before it, was not learned from."""
        self._learned_before.append(step - len(self._learned_before))

    def stream_step(self, count: int) -> int:
        """The step at which the batch of this number (from 0) arrived."""
        return count + bisect_right(self._learned_before, count)

    def state_dict(self) -> dict[str, Any]:
        return {"learned_before": list(self._learned_before)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._learned_before = [int(count) for count in state["learned_before"]]
