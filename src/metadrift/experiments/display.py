"""Progress of a comparison: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from functools import partial

from metadrift.experiments.progress import Progress
from metadrift.storage.progress import Board, duration


class ComparisonDisplay:
    """Call it repeatedly with all runs. It estimates the time left from the steps done so far."""

    def __init__(self, quiet: bool = False) -> None:
        self._board = Board(("run", "state", "step", "accuracy %"), right=("step",), quiet=quiet)
        self.say = self._board.say
        self._start = time.monotonic()
        self._before: int | None = None  # steps that earlier commands did
        self._said: Counter[str] = Counter()

    def __call__(self, runs: list[Progress]) -> None:
        done = sum(run.step for run in runs)
        if self._before in (None, done):  # loading says nothing about the speed
            self._before, self._start = done, time.monotonic()
        active = [run for run in runs if run.state in ("running", "failed")]
        lines = partial(self._lines, runs)
        self._board.show(map(_row, active), self._state(runs), lines)

    def close(self, runs: list[Progress]) -> None:
        self._board.close()
        self.say(counts(runs))

    def _lines(self, runs: list[Progress], due: bool) -> Iterable[str]:
        """One line when a run begins or ends, and one every 15 seconds."""
        states = Counter(run.state for run in runs)
        if not due and states == self._said:
            return []
        self._said = states
        return [self._state(runs)]

    def _state(self, runs: list[Progress]) -> str:
        done, total = sum(run.step for run in runs), sum(run.steps for run in runs)
        shown = f"{counts(runs)}; {done} of {total} steps"
        more = done - (self._before or 0)
        if more <= 0:
            return shown
        if done == total:
            return f"{shown}, evaluating" if any(run.state == "running" for run in runs) else shown
        left = (total - done) * (time.monotonic() - self._start) / more
        return f"{shown}, about {duration(left)} left"


def counts(runs: list[Progress]) -> str:
    """The number of runs in each state.

    Examples
    --------
    >>> from metadrift.experiments.grid import Grid
    >>> from metadrift.streams import load_benchmark
    >>> cells = Grid("two", {"mir": {"method": "mir"}}, seeds=(0, 1)).cells()
    >>> runs = [Progress(cell, cell.config, load_benchmark("builtin")) for cell in cells]
    >>> runs[1].state = "running"
    >>> counts(runs)
    '2 runs: 1 running, 1 waiting'
    """
    states = Counter(run.state for run in runs)
    order = ("done", "running", "waiting", "failed")
    shown = ", ".join(f"{states[state]} {state}" for state in order if states[state])
    return f"{len(runs)} {'run' if len(runs) == 1 else 'runs'}: {shown}"


def _row(run: Progress) -> list[str]:
    accuracy = "" if run.accuracy != run.accuracy else f"{100 * run.accuracy:.1f}"
    return [run.cell.name, run.state, f"{run.step} of {run.steps}", accuracy]
