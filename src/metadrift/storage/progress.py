"""How far a long piece of work is: a bar on a terminal, plain lines elsewhere, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def shown_progress(what: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how much more is done.

    Examples
    --------
    >>> with shown_progress("counting", 3, "sheep") as advance:
    ...     for _ in range(3):
    ...         advance(1)
    """
    if not sys.stderr.isatty():
        yield _lines(what, total, unit)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()]
    columns += [TextColumn(unit), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(what, total=total)
        yield lambda more: bars.advance(bar, more)


def _lines(what: str, total: int, unit: str) -> Callable[[int], None]:
    start = last = time.monotonic()
    done = 0

    def advance(more: int) -> None:
        nonlocal done, last
        done += more
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            rate = done / (now - start)
            print(f"{what}: {done} of {total} {unit}, {rate:.0f} a second", file=sys.stderr)

    return advance
