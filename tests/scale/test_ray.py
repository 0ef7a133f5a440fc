"""A comparison on a real Ray cluster of two nodes, beside the same runs on this machine."""

import json
import threading
import time
from pathlib import Path

import pytest
import torch

from metadrift import registry
from metadrift.experiments.grid import Grid
from metadrift.experiments.local import run_locally
from metadrift.experiments.progress import progress_of_all
from metadrift.experiments.run_grid import Engine, run_grid
from metadrift.runs.loop import go_on, start
from metadrift.runs.record import read_lines

ray = pytest.importorskip("ray", reason="the extra metadrift[ray] is not installed")

MINE = f"{Path(__file__).parents[1] / 'plugins' / 'mine.py'}:ReplayTwice"

# Ray's own code warns about files and sockets that it leaves to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def cluster(monkeypatch):
    """A head without CPUs, and two nodes of one CPU each, of which one can be lost."""
    from ray.cluster_utils import Cluster

    # Ray's workers step back behind everything else on the machine, by 15 unless told.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    small = {"object_store_memory": 80_000_000}
    head = {"include_dashboard": False, "num_cpus": 0, **small}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.workers = [made.add_node(num_cpus=1, **small) for _ in range(2)]
    made.wait_for_nodes()
    yield made
    made.shutdown()


@pytest.fixture
def grid(two_domains):
    """12 runs: 3 methods, one of them of a user's file, 4 seeds."""
    registry.allow(MINE)
    settings = {
        "benchmark": two_domains(12, 8, tasks=2),
        "ways": 3,
        "queries": 2,
        "test_tasks": 6,
        "stage_tasks": 0,
        "checkpoint_every": 5,
        "log_every": 1,
        "threads": 1,
        "learn": {"filters": 4},
    }
    methods = {"mine": MINE, "reservoir": "reservoir", "m2d3-pets": "m2d3-pets"}
    variants = {name: {"method": method} for name, method in methods.items()}
    return Grid("twelve", variants, seeds=(0, 1, 2, 3), reference="reservoir", settings=settings)


def accuracy(folder, cell):
    return json.loads((folder / cell.name / "summary.json").read_text())["accuracy"]


def test_a_grid_on_two_nodes_has_the_numbers_of_this_machine_though_one_node_is_lost(
    cluster, grid, tmp_path
):
    torch.set_num_threads(1)
    cells, there, here = grid.cells(), tmp_path / "there", tmp_path / "here"
    finished = {}

    def lose_a_node():
        """When 4 runs are done and others are on their way."""
        while True:
            done = [c for c in cells if (there / c.name / "summary.json").is_file()]
            begun = [c for c in cells if list((there / c.name / "checkpoints").glob("step-*"))]
            if len(done) >= 4 and len(begun) > len(done):
                break
            time.sleep(0.05)
        finished.update({c.name: (there / c.name / "summary.json").stat() for c in done})
        # The program itself hangs on one of the nodes, whichever Ray gave it.
        mine = ray._private.worker.global_worker.node._raylet_socket_name
        lost = next(node for node in cluster.workers if node._raylet_socket_name != mine)
        cluster.remove_node(lost, allow_graceful=False)

    thief = threading.Thread(target=lose_a_node, daemon=True)
    thief.start()
    _, failed = run_grid(grid, there, Engine(ray_address=cluster.address), quiet=True)
    assert failed == []
    thief.join(60)
    assert len(finished) >= 4
    for cell in cells:
        start(cell.config, here / cell.name, quiet=True)
        assert accuracy(there, cell) == accuracy(here, cell), cell.name
        steps = [line["step"] for line in read_lines(there / cell.name / "metrics.jsonl")]
        assert steps == list(range(1, 21)), cell.name
        if cell.name in finished:
            now = (there / cell.name / "summary.json").stat()
            assert now.st_mtime_ns == finished[cell.name].st_mtime_ns
    assert json.loads((there / "comparison.json").read_text())["missing"] == []

    # The same comparison again, here or there, repeats nothing.
    before = (there / cells[0].name / "summary.json").stat().st_mtime_ns
    table = progress_of_all(cells, there)
    run_locally(table, there, 1, lambda _: None, poll=0.01)
    assert {entry.state for entry in table} == {"done"}
    assert (there / cells[0].name / "summary.json").stat().st_mtime_ns == before
    assert go_on(there / cells[0].name, quiet=True)["accuracy"] == accuracy(here, cells[0])
