"""The runs of a comparison as every engine sees them: which are left, and their progress."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from metadrift.errors import MetadriftError
from metadrift.experiments.grid import Cell
from metadrift.runs.config import RunConfig
from metadrift.runs.folder import (
    is_unused,
    refuse_other_result,
    refuse_other_run,
    write_settings,
)
from metadrift.runs.folder_lock import folder_lock, refuse_links
from metadrift.runs.prepare import prepared
from metadrift.runs.record import read_last_line
from metadrift.streams import Benchmark


@dataclass
class Progress:
    """The progress of one run of a comparison."""

    cell: Cell
    config: RunConfig
    benchmark: Benchmark
    state: str = "waiting"  # waiting, running, done, failed
    step: int = 0
    accuracy: float = float("nan")
    reason: str = ""

    @property
    def steps(self) -> int:
        """All steps of the run."""
        return self.benchmark.steps


def progress_of_all(cells: Sequence[Cell], folder: Path, here: bool = True) -> list[Progress]:
    """Every run, checked before the first one begins. Writes nothing.

    A run with a result is done and is not repeated. A run that was begun with other settings than
    its cell's raises an error. `here` is False when other machines do the runs.
    """
    table: list[Progress] = []
    checked: dict[str, tuple[RunConfig, Benchmark]] = {}
    for cell in cells:
        # One check per row is enough: seeds cannot make settings invalid.
        alike = repr(replace(cell.config, seed=0))
        if alike not in checked:
            checked[alike] = prepared(cell.config, here=here)
        config, benchmark = checked[alike]
        entry = Progress(cell, replace(config, seed=cell.seed), benchmark)
        home = folder / cell.name
        if is_finished(cell, folder):
            entry.state, entry.step = "done", entry.steps
            refuse_other_result(home, entry.config, benchmark)
        elif not is_unused(home):
            refuse_other_run(home, entry.config, benchmark)
        table.append(entry)
    return table


def is_finished(cell: Cell, folder: Path) -> bool:
    return (folder / cell.name / "summary.json").is_file()


def write_config(entry: Progress, folder: Path, threads: int) -> Path:
    """Write the settings into the run's folder unless the run has begun; returns the folder."""
    home = folder / entry.cell.name
    if home.is_symlink():
        raise MetadriftError(f"{home} is a link; remove it, or choose another --name")
    refuse_links(home)
    if is_unused(home):
        config = replace(entry.config, threads=entry.cell.config.threads or threads)
        with folder_lock(home):
            if is_unused(home):  # no other program has begun it meanwhile
                write_settings(home, config, entry.benchmark)
    return home


def read_progress(entry: Progress, folder: Path) -> None:
    """Update the entry from the run's folder."""
    line = read_last_line(folder / entry.cell.name / "metrics.jsonl")
    if line:
        entry.step = int(line["step"])
        entry.accuracy = float(line["accuracy"] or "nan")


@contextmanager
def as_interrupt(number: int) -> Iterator[None]:
    """Within this context the signal raises KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)
