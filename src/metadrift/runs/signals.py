"""Signals that ask a run to stop."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Note SIGINT and SIGTERM, to be handled after the step. A second one acts at once."""
    noted: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: the calling program handles signals itself
        yield noted
        return
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
