"""Ray on two nodes of this machine, of which one is killed in the middle of a run."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trial import FailedError, Trial, Workshop, expect

from metadrift.experiments.grid import Grid
from metadrift.experiments.run_grid import Engine, run_grid
from metadrift.runs.checkpoint import checkpoints, steps_of
from metadrift.runs.record import read_lines
from tiny_runs import write_benchmark

KIND = "Ray with a lost node"
STEPS = {"dark": 150, "bright": 150}


def trials() -> Iterator[Trial]:
    for n in range(2):
        yield Trial(KIND, f"a node is lost in the middle of its run, {n}", _lost)


def _lost(work: Workshop, place: Path, rng: random.Random) -> str:
    """The run that the lost node had must go on from its checkpoint, not from the start."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    small = {"object_store_memory": 80_000_000}
    head = {"include_dashboard": False, "num_cpus": 0, **small}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=1, **small) for _ in range(2)]
    cluster.wait_for_nodes()
    lost: dict[str, Any] = {}

    def lose_a_node() -> None:
        """When both runs have checkpoints, and neither is done."""
        runs = [place / "grid" / cell.name for cell in grid.cells()]
        while not all(checkpoints(run / "checkpoints") for run in runs):
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.5))
        lost["before"] = {run.name: steps_of(checkpoints(run / "checkpoints"))[-1] for run in runs}
        mine = ray._private.worker.global_worker.node._raylet_socket_name
        node = next(node for node in nodes if node._raylet_socket_name != mine)
        cluster.remove_node(node, allow_graceful=False)

    try:
        grid = _grid(work)
        thief = threading.Thread(target=lose_a_node, daemon=True)
        thief.start()
        _, failed = run_grid(grid, place / "grid", Engine(ray_address=cluster.address), quiet=True)
    finally:
        cluster.shutdown()
    if failed:
        raise FailedError("lost", f"failed: {failed}")
    expect("before" in lost, "the runs ended before a node was lost")
    return _proof(work, place, grid, lost["before"])


def _grid(work: Workshop) -> Grid:
    file = work.home / "cluster.toml"
    if not file.exists():
        write_benchmark(file, STEPS, memory=6)
    settings = asdict(work.config) | {"checkpoint_every": 10, "log_every": 1, "stage_tasks": 0}
    keep = ("ways", "queries", "test_tasks", "checkpoint_every", "log_every", "stage_tasks")
    chosen = {name: settings[name] for name in keep} | {"benchmark": str(file), "threads": 1}
    variants = {"reservoir": {"method": "reservoir"}}
    chosen["learn"] = {"filters": 4}
    return Grid("two", variants, seeds=(0, 1), reference="reservoir", settings=chosen)


def _proof(work: Workshop, place: Path, grid: Grid, before: dict[str, int]) -> str:
    """One run says that it went on from a checkpoint; every step is there once, with its number."""
    resumed = {}
    for cell in grid.cells():
        run = place / "grid" / cell.name
        events = read_lines(run / "events.jsonl")
        again = [e["step"] for e in events if e["event"] == "resumed"]
        if again:
            resumed[cell.name] = again[-1]
        steps = [line["step"] for line in read_lines(run / "metrics.jsonl")]
        expect(steps == list(range(1, 301)), f"{cell.name}: {len(steps)} lines of metrics")
        work.same(run, cell.config)
    expect(len(resumed) == 1, f"resumed: {resumed}")
    ((name, step),) = resumed.items()
    if step < before[name]:
        raise FailedError("lost", f"it went on from {step}, though it had {before[name]}")
    return f"{name} had come to step {before[name]} and went on from step {step} of 300"
