"""Runs in parallel processes on this machine, with the cores divided among them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from metadrift.errors import MetadriftError
from metadrift.experiments.grid import Cell
from metadrift.runs.config import load_config, to_toml
from metadrift.runs.files import write_atomically
from metadrift.runs.record import read_last_line


@dataclass
class Progress:
    """How far one run of a comparison is."""

    cell: Cell
    state: str = "waiting"  # waiting, running, done, failed
    step: int = 0
    accuracy: float = float("nan")
    reason: str = ""


def run_locally(
    cells: Sequence[Cell],
    folder: Path,
    workers: int,
    show: Callable[[list[Progress]], None],
    poll: float = 0.5,
) -> list[Progress]:
    """Run every cell that is not finished yet; a failed one does not stop the others.

    A run that was interrupted goes on from its last checkpoint. Threads are divided: each process
    gets cores/workers of them, at least one.
    """
    threads = max(1, (os.cpu_count() or 1) // workers)
    table = [Progress(cell) for cell in cells]
    waiting = []
    for entry in table:
        if (folder / entry.cell.name / "summary.json").is_file():
            entry.state = "done"
        else:
            waiting.append(entry)
    running: list[tuple[Progress, subprocess.Popen[bytes]]] = []
    # Asked to stop, this process must live on until its runs have saved themselves.
    with _as_interrupt(signal.SIGTERM):
        _work(waiting, running, folder, workers, threads, lambda: show(table), poll)
    return table


def _work(
    waiting: list[Progress],
    running: list[tuple[Progress, subprocess.Popen[bytes]]],
    folder: Path,
    workers: int,
    threads: int,
    show: Callable[[], None],
    poll: float,
) -> None:
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                entry = waiting.pop(0)
                entry.state = "running"
                running.append((entry, _begin(entry.cell, folder, threads)))
            time.sleep(poll)
            for entry, process in list(running):
                _look(entry, folder)
                if process.poll() is not None:
                    running.remove((entry, process))
                    _end(entry, folder, process.returncode)
            show()
    finally:
        for _, process in running:
            process.terminate()  # it saves itself and ends
        for _, process in running:
            process.wait()


@contextmanager
def _as_interrupt(number: int) -> Iterator[None]:
    """Inside, the signal raises KeyboardInterrupt, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


def _begin(cell: Cell, folder: Path, threads: int) -> subprocess.Popen[bytes]:
    home = folder / cell.name
    config = home / "config.toml"
    if config.is_file() and load_config(config) != cell.config:
        # Begun under other settings: it would not be the run that the table names.
        raise MetadriftError(f"{home} holds a run with other settings; choose another --name")
    home.mkdir(parents=True, exist_ok=True)
    write_atomically(config, to_toml(cell.config))
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with open(home / "log.txt", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "metadrift", "resume", str(home), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=environment,
        )


def _look(entry: Progress, folder: Path) -> None:
    line = read_last_line(folder / entry.cell.name / "metrics.jsonl")
    if line:
        entry.step = int(line["step"])
        entry.accuracy = float(line["accuracy"] or "nan")


def _end(entry: Progress, folder: Path, code: int) -> None:
    if code == 0 and (folder / entry.cell.name / "summary.json").is_file():
        entry.state = "done"
        return
    entry.state = "failed"
    said = (folder / entry.cell.name / "log.txt").read_text(encoding="utf-8", errors="replace")
    lines = said.strip().splitlines()
    entry.reason = lines[-1] if lines else f"ended with code {code}"
