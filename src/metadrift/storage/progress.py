"""Progress of long work: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TextIO

from metadrift.storage.terminal import printable, text_table

SECONDS_BETWEEN_LINES = 15.0


class Bar:
    """Counts towards a total, with the time left; on stderr.

    Parameters
    ----------
    what
        What is being done, such as "importing pets".
    total
        How much there is to do; None if unknown.
    unit
        What is counted; "bytes" are shown in MB.
    done
        How much was done before.
    quiet
        Show nothing.

    Examples
    --------
    >>> with Bar("counting", 3, "sheep") as bar:
    ...     for _ in range(3):
    ...         bar.advance(1)
    """

    def __init__(
        self, what: str, total: int | None, unit: str, *, done: int = 0, quiet: bool = False
    ) -> None:
        self._quiet = quiet
        self._lines = _LineClock()
        self._bars: Any = None
        if not quiet and sys.stderr.isatty():
            self._bars = _rich_bars()
            self._bar = self._bars.add_task("", count="")
            self._bars.start()
        self.begin(what, total, unit, done)

    def begin(self, what: str, total: int | None, unit: str, done: int = 0) -> None:
        """Start another piece of work."""
        self._what, self._unit = printable(what), unit
        self._total: int | None = total
        self._done = self._before = done
        self._start = time.monotonic()
        if self._bars:
            self._bars.reset(self._bar, description=self._what, total=total, completed=done)
            self._draw("")

    def update(self, done: int, note: str = "", total: int | None = None) -> None:
        """This much is done; `note` says more about it."""
        self._done = done
        self._total = self._total if total is None else total
        if self._bars:
            self._draw(note)
        elif not self._quiet and self._lines.due():
            left = self._left()
            parts = [self._count(), note or self._rate(), left and f"{left} left"]
            self.say(f"{self._what}: {', '.join(part for part in parts if part)}")

    def advance(self, more: int) -> None:
        """This much more is done."""
        self.update(self._done + more)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self._bars:
            self._bars.console.print(printable(text), highlight=False, markup=False, soft_wrap=True)
        elif not self._quiet:
            print(printable(text), file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._bars:
            self._bars.stop()
            self._bars = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _draw(self, note: str) -> None:
        count = f"{self._count()} {printable(note or self._rate())}"
        self._bars.update(self._bar, completed=self._done, total=self._total, count=count)

    def _count(self) -> str:
        if self._unit == "bytes":
            of = "" if self._total is None else f" of {self._total / 1e6:.1f}"
            return f"{self._done / 1e6:.1f}{of} MB"
        of = "" if self._total is None else f" of {self._total}"
        return f"{self._done}{of} {self._unit}"

    def _rate(self) -> str:
        rate = self._per_second()
        shown = f"{rate / 1e6:.1f} MB" if self._unit == "bytes" else f"{rate:.3g}"
        return f"{shown} per second" if rate else ""

    def _left(self) -> str:
        rate = self._per_second()
        more = (self._total or 0) - self._done
        return duration(more / rate) if rate and more > 0 else ""

    def _per_second(self) -> float:
        return (self._done - self._before) / max(time.monotonic() - self._start, 1e-9)


class Board:
    """A table that is drawn again and again on a terminal; elsewhere the same as lines.

    Parameters
    ----------
    columns, right
        The headings, and which of them stand above numbers.
    stream
        Where to draw. On stderr the table is removed at the end; on stdout it stays as the result.
    quiet
        Show nothing.
    """

    def __init__(
        self,
        columns: Sequence[str],
        right: Collection[str] = (),
        stream: TextIO | None = None,
        quiet: bool = False,
    ) -> None:
        self._columns, self._right = columns, right
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._lines = _LineClock()
        self._live: Any = None

    def show(
        self, rows: Iterable[Sequence[str]], title: str, lines: Callable[[bool], Iterable[str]]
    ) -> None:
        """Draw the table, or print lines; `lines` gets True when a regular line is due."""
        if self._quiet:
            return
        if not self._stream.isatty():
            for line in lines(self._lines.due()):
                self.say(line)
            return
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(file=self._stream),
                auto_refresh=False,
                transient=self._stream is sys.stderr,
            )
            self._live.start()
        self._live.update(text_table(self._columns, rows, title, self._right), refresh=True)

    def say(self, text: str) -> None:
        """Print a line that stays; not while a table is drawn."""
        if not self._quiet:
            print(printable(text), file=self._stream, flush=True)

    def close(self) -> None:
        if self._live:
            self._live.stop()


def duration(seconds: float) -> str:
    """A length of time in a short form.

    Examples
    --------
    >>> duration(42.4), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class _LineClock:
    """Says when the next plain line is due."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def due(self) -> bool:
        due = time.monotonic() - self._last >= SECONDS_BETWEEN_LINES
        if due:
            self._last = time.monotonic()
        return due


def _rich_bars() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
