"""Runs as tasks of a Ray cluster: one task per run, on any machine with room.

All machines share the comparison's folder, under the same path. If a machine is lost, Ray starts
its runs again on another one. They continue from their last checkpoints.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from metadrift import registry
from metadrift.errors import MetadriftError, UsageError
from metadrift.experiments.progress import (
    Progress,
    as_interrupt,
    is_finished,
    read_progress,
    write_config,
)
from metadrift.runs.config import RunConfig

RETRIES = 10  # how often a run may lose its machine
_LET_GO = 120.0  # seconds until a process on a lost machine has surely ended
_SAVE = 60.0  # seconds in which a run that is asked to stop writes its checkpoint


def run_on_ray(
    table: list[Progress],
    folder: Path,
    address: str,
    show: Callable[[list[Progress]], None],
    poll: float = 0.5,
) -> None:
    """Do every unfinished run. A run that fails does not stop the others.

    A run reserves one CPU per thread (one thread unless --threads is given) and, with
    --device cuda, one GPU.
    """
    ray = _connect(address)
    try:
        _check_room(ray, [entry.cell.config for entry in table if entry.state == "waiting"])
        with as_interrupt(signal.SIGTERM):
            _work(ray, table, folder.resolve(), lambda: show(table), poll)
    finally:
        ray.shutdown()


def _work(
    ray: Any, table: list[Progress], folder: Path, show: Callable[[], None], poll: float
) -> None:
    start = ray.remote(max_retries=RETRIES)(_run)
    pending: dict[Any, Progress] = {}
    try:
        for entry in table:
            if entry.state == "waiting":
                config, threads = entry.cell.config, entry.cell.config.threads or 1
                home = write_config(entry, folder, threads)
                task = start.options(name=entry.cell.name, **_resources(config))
                pending[task.remote(str(home), threads, registry.allowed())] = entry
        while pending:
            ended, _ = ray.wait(list(pending), timeout=poll)
            for entry in pending.values():
                read_progress(entry, folder)
                if entry.step:
                    entry.state = "running"
            for reference in ended:
                _end(ray, reference, pending.pop(reference), folder)
            show()
    except KeyboardInterrupt:
        for reference in pending:
            ray.cancel(reference)  # it saves a checkpoint and ends
        ray.wait(list(pending), num_returns=len(pending), timeout=_SAVE)
        raise


def _run(home: str, threads: int, plugins: list[str]) -> str:
    """In a worker: begin or continue the run. Returns the reason if it fails."""
    import torch

    from metadrift.learners.allocator import keep_freed_memory
    from metadrift.runs.loop import go_on

    torch.set_num_threads(threads)
    registry.allow(*plugins)
    keep_freed_memory()  # this process does nothing but the run
    try:
        # After a machine is lost, its worker may hold the folder's lock a little longer.
        go_on(Path(home), quiet=True, patience=_LET_GO)
    except MetadriftError as error:
        return str(error)
    return ""


def _end(ray: Any, reference: Any, entry: Progress, folder: Path) -> None:
    try:
        entry.reason = ray.get(reference)
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines()
        entry.reason = lines[-1] if lines else type(error).__name__
    finished = not entry.reason and is_finished(entry.cell, folder)
    if not finished and not entry.reason:
        entry.reason = f"its summary is not in {folder}; do all machines share this folder?"
    entry.state = "done" if finished else "failed"


def _resources(config: RunConfig) -> dict[str, int]:
    return {"num_cpus": config.threads or 1, "num_gpus": 1 if config.device == "cuda" else 0}


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError("--engine ray needs the extra: pip install 'metadrift[ray]'") from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError) as error:
        raise MetadriftError(
            f"there is no Ray cluster at {address!r} ({str(error).splitlines()[0]}); "
            "`ray start --head` on one machine starts one, `ray start --address` joins others"
        ) from None
    return ray


def _check_room(ray: Any, configs: Sequence[RunConfig]) -> None:
    """Raise if no machine is large enough. Ray would let the task wait for ever."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for config in configs:
        wanted = _resources(config)
        pairs = (("CPU", wanted["num_cpus"]), ("GPU", wanted["num_gpus"]))
        if not any(all(node.get(kind, 0) >= n for kind, n in pairs) for node in alive):
            raise MetadriftError(
                f"a run needs {wanted['num_cpus']} CPUs and {wanted['num_gpus']} GPUs on one "
                "machine, and no machine of the cluster has that many"
            )
