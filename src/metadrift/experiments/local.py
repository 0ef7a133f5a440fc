"""Runs in parallel processes on this machine, with the cores divided among them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from metadrift import registry
from metadrift.experiments.progress import (
    Progress,
    as_interrupt,
    is_finished,
    read_progress,
    write_config,
)
from metadrift.storage.files import open_without_links


def cores() -> int:
    """The number of cores that this process may use. In a container, that is the container's."""
    return len(_usable()) or os.cpu_count() or 1


def core_shares(workers: int) -> list[list[int]]:
    """The cores of each worker; empty lists where the system cannot pin processes.

    Schedulers sometimes put several busy processes on one core and leave another idle, so every
    worker stays on its cores. With more workers than cores, workers share cores in turn.

    Examples
    --------
    >>> shares = core_shares(1)
    >>> len(shares), len(shares[0]) in (0, cores())
    (1, True)
    """
    usable = _usable()
    if not usable:
        return [[] for _ in range(workers)]
    if workers >= len(usable):
        return [[usable[i % len(usable)]] for i in range(workers)]
    each = len(usable) // workers
    return [usable[i * each : (i + 1) * each] for i in range(workers)]


def _usable() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def run_locally(
    table: list[Progress],
    folder: Path,
    workers: int,
    show: Callable[[list[Progress]], None],
    poll: float = 0.5,
) -> None:
    """Do every unfinished run. A run that fails does not stop the others.

    A run that was interrupted goes on from its last checkpoint. Each process gets its share of the
    cores (see `core_shares`) and as many threads, unless the run's own settings name a number.
    """
    waiting = [entry for entry in table if entry.state == "waiting"]
    # When asked to stop, this process waits until its runs have saved themselves.
    with as_interrupt(signal.SIGTERM):
        _work(waiting, folder, core_shares(workers), lambda: show(table), poll)


@dataclass
class _Running:
    entry: Progress
    process: subprocess.Popen[bytes]
    cores: list[int]


def _work(
    waiting: list[Progress],
    folder: Path,
    free: list[list[int]],
    show: Callable[[], None],
    poll: float,
) -> None:
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and free:
                entry = waiting.pop(0)
                entry.state = "running"
                mine = free.pop(0)
                running.append(_Running(entry, _begin(entry, folder, mine), mine))
            time.sleep(poll)
            for run in list(running):
                read_progress(run.entry, folder)
                if run.process.poll() is not None:
                    running.remove(run)
                    free.append(run.cores)
                    _end(run.entry, folder, run.process.returncode)
            show()
    finally:
        for run in running:
            run.process.terminate()  # it saves a checkpoint and ends
        for run in running:
            run.process.wait()


def _begin(entry: Progress, folder: Path, cores: list[int]) -> subprocess.Popen[bytes]:
    threads = entry.cell.config.threads or len(cores) or 1
    home = write_config(entry, folder, threads)
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    plugins = ["--plugin", *registry.allowed()] if registry.allowed() else []
    with open_without_links(home / "log.txt", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "metadrift", "resume", str(home), "--json", *plugins],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=environment,
        )
    if cores:
        with suppress(ProcessLookupError):  # it may have ended already
            os.sched_setaffinity(process.pid, cores)
    return process


def _end(entry: Progress, folder: Path, code: int) -> None:
    if code == 0 and is_finished(entry.cell, folder):
        entry.state, entry.step = "done", entry.steps
        return
    entry.state = "failed"
    said = (folder / entry.cell.name / "log.txt").read_text(encoding="utf-8", errors="replace")
    lines = said.strip().splitlines()
    reason = lines[-1] if lines else f"ended with code {code}"
    entry.reason = reason.removeprefix("metadrift resume: ")  # the user did not type this command
