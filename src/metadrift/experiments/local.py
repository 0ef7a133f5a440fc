"""Runs in parallel processes on this machine, with the cores divided among them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from metadrift.experiments.grid import Cell
from metadrift.experiments.progress import (
    Progress,
    all_of,
    as_interrupt,
    is_finished,
    look,
    prepare,
)


def cores() -> int:
    """How many cores this process may use: those of the container, not of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_locally(
    cells: Sequence[Cell],
    folder: Path,
    workers: int,
    show: Callable[[list[Progress]], None],
    poll: float = 0.5,
) -> list[Progress]:
    """Run every cell that is not finished yet; a failed one does not stop the others.

    A run that was interrupted goes on from its last checkpoint. Threads are divided: each process
    gets cores/workers of them, at least one, unless the run's own settings name a number.
    """
    threads = max(1, cores() // workers)
    table = all_of(cells, folder)
    waiting = [entry for entry in table if entry.state == "waiting"]
    running: list[tuple[Progress, subprocess.Popen[bytes]]] = []
    # Asked to stop, this process must live on until its runs have saved themselves.
    with as_interrupt(signal.SIGTERM):
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
                look(entry, folder)
                if process.poll() is not None:
                    running.remove((entry, process))
                    _end(entry, folder, process.returncode)
            show()
    finally:
        for _, process in running:
            process.terminate()  # it saves itself and ends
        for _, process in running:
            process.wait()


def _begin(cell: Cell, folder: Path, threads: int) -> subprocess.Popen[bytes]:
    home = prepare(cell, folder)
    environment = os.environ | {"OMP_NUM_THREADS": str(cell.config.threads or threads)}
    with open(home / "log.txt", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "metadrift", "resume", str(home), "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=environment,
        )


def _end(entry: Progress, folder: Path, code: int) -> None:
    if code == 0 and is_finished(entry.cell, folder):
        entry.state = "done"
        return
    entry.state = "failed"
    said = (folder / entry.cell.name / "log.txt").read_text(encoding="utf-8", errors="replace")
    lines = said.strip().splitlines()
    entry.reason = lines[-1] if lines else f"ended with code {code}"
