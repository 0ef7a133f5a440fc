"""`metadrift watch`: how far a run or the runs of a comparison are, again and again."""

from __future__ import annotations

import json as text
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import tyro

from metadrift.errors import MetadriftError, UsageError
from metadrift.experiments.comparison import saved_grid
from metadrift.runs.build import plan
from metadrift.runs.config import RunConfig, load_config
from metadrift.runs.record import read_last_line
from metadrift.storage.progress import Board, duration
from metadrift.storage.reading import read_json
from metadrift.storage.terminal import print_table

COLUMNS = ("run", "state", "step", "accuracy %", "statistic", "latent", "steps/s", "left")
NUMBERS = COLUMNS[2:]


@dataclass(frozen=True)
class State:
    """How far one run is. `accuracy` is on arriving tasks, and of the final test once done."""

    run: str
    state: str
    """waiting, running, silent (nothing written for two minutes) or done."""
    step: int
    steps: int
    accuracy: float | None
    statistic: float | None
    threshold: float | None
    latent_domain: int | None
    steps_per_s: float | None

    def cells(self) -> list[str]:
        """As people read it."""
        left = ""
        if self.state == "running" and self.steps_per_s:
            left = duration((self.steps - self.step) / self.steps_per_s)
        watched = self.threshold is not None and self.statistic is not None
        return [
            self.run,
            self.state,
            f"{self.step}/{self.steps}" if self.steps else str(self.step),
            "" if self.accuracy is None else f"{100 * self.accuracy:.1f}",
            f"{self.statistic:.3f} / {self.threshold:.3f}" if watched else "",
            "" if self.latent_domain is None else str(self.latent_domain),
            "" if self.steps_per_s is None else f"{self.steps_per_s:.1f}",
            left,
        ]


def watch(
    folder: tyro.conf.Positional[Path],
    /,
    once: bool = False,
    every: float = 2.0,
    json: bool = False,
) -> None:
    """Follow a run or a comparison in the terminal until it is done; Ctrl-C stops only watching.

    Parameters
    ----------
    folder
        The folder of a run or of a comparison.
    once
        Show the present state and end.
    every
        Seconds between two looks.
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


def states_of(folder: Path, now: float | None = None) -> list[State]:
    """One state a run, in the order of the comparison."""
    if (folder / "grid.json").is_file():
        cells = saved_grid(folder).cells()
        return [_state(folder / cell.name, cell.config, now) for cell in cells]
    if (folder / "config.toml").is_file():
        return [_state(folder, load_config(folder / "config.toml"), now)]
    raise MetadriftError(
        f"{folder} is neither a run (it has no config.toml) nor a comparison (no grid.json)"
    )


def _state(folder: Path, config: RunConfig, now: float | None) -> State:
    metrics, done = folder / "metrics.jsonl", folder / "summary.json"
    try:
        line = read_last_line(metrics) or {}
        steps = plan(config).steps
    except ValueError as error:
        raise MetadriftError(f"{metrics} has a line that is not JSON: {error}") from None
    except MetadriftError:  # the benchmark's own file is gone
        steps = 0
    accuracy, step = line.get("accuracy"), int(line.get("step", 0))
    state = "waiting"
    if done.is_file():
        summary = read_json(done)
        state, step, accuracy = "done", int(summary["steps"]), summary["accuracy"]["mean"]
    elif line:
        age = (time.time() if now is None else now) - metrics.stat().st_mtime
        state = "running" if age < 120 else "silent"
    known = {key: line.get(key) for key in ("statistic", "threshold", "latent_domain")}
    return State(
        folder.resolve().name,
        state,
        step,
        steps,
        accuracy,
        steps_per_s=line.get("steps_per_s"),
        **known,
    )


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
            if all(state.state == "done" for state in states):
                return
            time.sleep(every)
    finally:
        board.close()


def _lines(states: list[State], said: dict[str, State], due: bool) -> Iterator[str]:
    """A line for each run whose state changed, and now and then for those that go on."""
    for state in states:
        old = said.get(state.run)
        changed = old is None or old.state != state.state
        if changed or (due and state.state == "running" and state != old):
            said[state.run] = state
            named = zip(COLUMNS[2:], state.cells()[2:], strict=True)
            more = ", ".join(f"{name} {cell}" for name, cell in named if cell)
            yield f"{state.run}: {state.state}, {more}"
