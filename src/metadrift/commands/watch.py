"""`metadrift watch`: follow the progress of runs."""

from __future__ import annotations

import json as text
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import tyro

from metadrift.commands.arguments import call
from metadrift.errors import UsageError
from metadrift.experiments.states import State, states_of
from metadrift.storage.progress import Board
from metadrift.storage.terminal import print_table

COLUMNS = ("run", "state", "step", "accuracy %", "statistic", "latent", "steps/s", "left")
NUMBERS = COLUMNS[2:]


def main(words: list[str]) -> int:
    return call(watch, "watch", words)


def watch(
    folder: tyro.conf.Positional[Path],
    /,
    once: bool = False,
    every: float = 2.0,
    json: bool = False,
) -> int:
    """Follow a run or a comparison in the terminal until it is done; Ctrl-C stops only watching.

    Parameters
    ----------
    folder
        The folder of a run or of a comparison.
    once
        Show the present state and end.
    every
        Seconds between two updates.
    json
        Print the present state as JSON and end.
    """
    if every <= 0:
        raise UsageError("--every must be above 0")
    states = states_of(folder)
    if json:
        print(text.dumps([asdict(state) for state in states]))
    elif once:
        cells = [state.cells() for state in states]
        print_table(COLUMNS, cells, _counts(states), right=NUMBERS)
    else:
        _follow(folder, every)
    return 0


def _counts(states: list[State]) -> str:
    done = sum(state.state == "done" for state in states)
    return f"{done} of {len(states)} {'run' if len(states) == 1 else 'runs'} done"


def _follow(folder: Path, every: float) -> None:
    """Show the states until all are done."""
    board = Board(COLUMNS, NUMBERS, sys.stdout)
    said: dict[str, State] = {}
    try:
        while True:
            states = states_of(folder)
            cells = [state.cells() for state in states]
            board.show(cells, _counts(states), partial(_lines, states, said))
            if all(state.state in ("done", "stopped") for state in states):
                return
            time.sleep(every)
    finally:
        board.close()


def _lines(states: list[State], said: dict[str, State], due: bool) -> Iterator[str]:
    """A line for each run whose state changed, and every 15 seconds for running ones."""
    for state in states:
        old = said.get(state.run)
        changed = old is None or old.state != state.state
        if changed or (due and state.state == "running" and state != old):
            said[state.run] = state
            named = zip(COLUMNS[2:], state.cells()[2:], strict=True)
            more = ", ".join(f"{name} {cell}" for name, cell in named if cell)
            yield f"{state.run}: {state.state}, {more}"
