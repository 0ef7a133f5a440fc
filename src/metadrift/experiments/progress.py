"""The runs of a comparison as every engine sees them: what is left, and how far each one is."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from metadrift.errors import MetadriftError
from metadrift.experiments.grid import Cell
from metadrift.runs.build import plan
from metadrift.runs.config import load_config, to_toml
from metadrift.runs.record import read_last_line
from metadrift.storage.files import write_atomically


@dataclass
class Progress:
    """How far one run of a comparison is."""

    cell: Cell
    steps: int
    """How many there are in all."""
    state: str = "waiting"  # waiting, running, done, failed
    step: int = 0
    accuracy: float = float("nan")
    reason: str = ""


def progress_of_all(cells: Sequence[Cell], folder: Path) -> list[Progress]:
    """Every run; those with a summary are done and are never repeated."""
    found = []
    for cell in cells:
        steps = plan(cell.config).steps
        done = is_finished(cell, folder)
        found.append(Progress(cell, steps, "done" if done else "waiting", steps if done else 0))
    return found


def is_finished(cell: Cell, folder: Path) -> bool:
    return (folder / cell.name / "summary.json").is_file()


def write_config(cell: Cell, folder: Path) -> Path:
    """Put the configuration into the run's folder, so that it can be begun or gone on with."""
    home = folder / cell.name
    config = home / "config.toml"
    if config.is_file() and load_config(config) != cell.config:
        # Begun under other settings: it would not be the run that the table names.
        raise MetadriftError(f"{home} holds a run with other settings; choose another --name")
    home.mkdir(parents=True, exist_ok=True)
    write_atomically(config, to_toml(cell.config))
    return home


def read_progress(entry: Progress, folder: Path) -> None:
    """Bring the entry up to date with the run's folder."""
    line = read_last_line(folder / entry.cell.name / "metrics.jsonl")
    if line:
        entry.step = int(line["step"])
        entry.accuracy = float(line["accuracy"] or "nan")


@contextmanager
def as_interrupt(number: int) -> Iterator[None]:
    """Inside, the signal raises KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)
