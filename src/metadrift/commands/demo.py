"""`metadrift demo`: the main job in a few minutes, on built-in domains, and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metadrift.commands.arguments import call
from metadrift.commands.compare import finish, print_result
from metadrift.errors import UsageError
from metadrift.experiments.grid import Grid
from metadrift.experiments.local import cores
from metadrift.experiments.run_grid import Engine, run_grid
from metadrift.experiments.table import difference, percent
from metadrift.storage.terminal import print_table
from metadrift.streams import load_benchmark

METHODS = ("sequential", "reservoir", "m2d3-pets")
BENCHMARK = "builtin-uneven"


def main(words: list[str]) -> int:
    return call(demo, "demo", words)


def demo(out: Path = Path("runs"), scale: float = 0.05, seeds: int = 3) -> int:
    """A stream with three short stays and a long one, and a memory of eight batches.

    Sequential training keeps nothing and forgets. A reservoir keeps mostly the long domain.
    m2d3-pets notices the changes by itself and divides the same memory among the domains. All
    three have the same tasks, network, steps and fresh tasks, and both memories replay as much.
    It takes three to seven minutes on two free cores.

    Parameters
    ----------
    out
        The folder that the demo's folder is made in.
    scale
        Share of the stream's 28,200 steps; memory and detection windows shrink with it.
    seeds
        How many seeds to run; with two or more, differences have an interval.
    """
    if seeds < 1:
        raise UsageError(f"--seeds must be at least 1, not {seeds}")
    grid = Grid(
        title="demo",
        variants={method: {"method": method} for method in METHODS},
        shots=(5,),
        seeds=tuple(range(seeds)),
        reference="reservoir",
        settings={
            "benchmark": BENCHMARK,
            "scale": scale,
            "queries": 3,
            "lr": 0.003,  # higher than the paper's 0.001, because there are few steps
            "test_tasks": 200,
            "stage_tasks": 40,
            "learn": {"filters": 16},
        },
    )
    folder = out / f"demo-{scale:g}"
    result, failed = run_grid(grid, folder, Engine(workers=min(2, cores())))
    print_result(result, folder)
    if not failed:
        tell(result, scale)
    return finish(failed, None if failed else folder)


def tell(result: dict[str, Any], scale: float) -> None:
    """Accuracy and memory by domain, what was noticed, and the paired difference."""
    stream = load_benchmark(BENCHMARK).scaled(scale)
    rows = {row["variant"]: row for row in result["rows"]}
    accuracy = [
        [segment.domain, str(segment.steps)]
        + [percent(row["per_domain"][segment.domain]["mean"]) for row in rows.values()]
        for segment in stream.segments
    ]
    print_table(["domain", "steps", *rows], accuracy, "accuracy % on unseen classes", ["steps"])
    held = {name: row for name, row in rows.items() if row["shares"]}
    shares = [
        [domain, *(percent(row["shares"][domain]) for row in held.values())]
        for domain in stream.domains
    ]
    print_table(["domain", *held], shares, f"share of the memory of {stream.memory} batches, %")
    ours = rows[METHODS[-1]]
    found = ours["detection"]
    print(
        f"m2d3-pets found {found['detected']} of {found['true_changes']} changes, with "
        f"{found['false_alarms']} false alarms; it was not told that there are changes"
    )
    seeds = len(result["seeds"])
    print(
        f"m2d3-pets minus reservoir, in points: {difference(ours['difference'])}, "
        + (f"paired over {seeds} seeds" if seeds > 1 else "of one seed, which proves nothing")
    )
