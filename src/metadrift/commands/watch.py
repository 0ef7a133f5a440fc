"""`metadrift watch`: how far a run or the runs of a comparison are, again and again."""

from __future__ import annotations

import json as text
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from metadrift.errors import MetadriftError, UsageError
from metadrift.experiments.comparison import saved_grid
from metadrift.runs.build import plan
from metadrift.runs.config import RunConfig, load_config
from metadrift.runs.progress import printable
from metadrift.runs.record import read_last_line
from metadrift.storage.files import read_json

COLUMNS = ("run", "state", "step", "accuracy %", "statistic", "latent", "steps/s", "left")
SECONDS_BETWEEN_LINES = 15.0


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
            left = f"{(self.steps - self.step) / self.steps_per_s:,.0f} s"
        watched = self.threshold is not None and self.statistic is not None
        return [
            printable(self.run),
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
        _print(states)
    elif sys.stdout.isatty():
        _live(folder, every)
    else:
        _lines(folder, every)


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


def _print(states: list[State]) -> None:
    from rich.console import Console

    # Into a file or a pipe the table goes whole, however wide.
    width = None if sys.stdout.isatty() else 160
    Console(file=sys.stdout, width=width).print(_table(states))


def _table(states: list[State]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=_counts(states))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("run", "state") else "right")
    for state in states:
        table.add_row(*(Text(cell) for cell in state.cells()))
    return table


def _counts(states: list[State]) -> str:
    done = sum(state.state == "done" for state in states)
    return f"{done} of {len(states)} {'run' if len(states) == 1 else 'runs'} done"


def _live(folder: Path, every: float) -> None:
    from rich.live import Live

    states = states_of(folder)
    with Live(_table(states), auto_refresh=False) as live:
        while not _finished(states):
            time.sleep(every)
            states = states_of(folder)
            live.update(_table(states), refresh=True)


def _lines(folder: Path, every: float) -> None:
    """A line for each run whose state changed, and one now and then for those that go on."""
    before: dict[str, State] = {}
    last = 0.0
    while True:
        states = states_of(folder)
        due = time.monotonic() - last > SECONDS_BETWEEN_LINES
        for state in states:
            old = before.get(state.run)
            changed = old is None or old.state != state.state
            if changed or (due and state.state == "running" and state != old):
                named = zip(COLUMNS[2:], state.cells()[2:], strict=True)
                more = ", ".join(f"{name} {cell}" for name, cell in named if cell)
                print(f"{state.cells()[0]}: {state.state}, {more}", flush=True)
        last = time.monotonic() if due else last
        before = {state.run: state for state in states}
        if _finished(states):
            return
        time.sleep(every)


def _finished(states: list[State]) -> bool:
    return all(state.state == "done" for state in states)
