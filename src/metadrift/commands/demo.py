"""`metadrift demo`: the main job in a few minutes, on the built-in domains, and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metadrift.commands.arguments import call
from metadrift.commands.compare import finish, print_result
from metadrift.errors import MetadriftError
from metadrift.experiments.grid import Grid
from metadrift.experiments.local import cores
from metadrift.experiments.run_grid import Engine, run_grid
from metadrift.experiments.table import percent
from metadrift.storage.reading import read_json
from metadrift.storage.terminal import print_table

METHODS = ("sequential", "reservoir", "m2d3-pets")


def main(words: list[str]) -> int:
    return call(demo, "demo", words)


def demo(out: Path = Path("runs"), scale: float = 0.03, seeds: int = 1) -> int:
    """A stream that passes through six built-in domains, long and short ones, with a small memory.

    Sequential training forgets. A reservoir remembers mostly the long domains. m2d3-pets notices
    the changes by itself and divides its memory among the domains. The demo prints the results.

    Parameters
    ----------
    out
        Where the demo's folder goes.
    scale
        Share of the paper's 41,000 steps.
    seeds
        How many seeds to run; with two or more, differences have an interval.
    """
    grid = Grid(
        title="six built-in domains, 5-way 5-shot",
        variants={method: {"method": method} for method in METHODS},
        shots=(5,),
        seeds=tuple(range(seeds)),
        reference="reservoir",
        settings={
            "benchmark": "builtin",
            "scale": scale,
            "queries": 5,
            "lr": 0.003,  # higher than the paper's 0.001, because there are few steps
            "test_tasks": 200,
            "stage_tasks": 50,
            "learn": {"filters": 32},
        },
    )
    folder = out / f"demo-{scale:g}"
    result, failed = run_grid(grid, folder, Engine(workers=min(2, cores())))
    print_result(result, folder)
    if not failed:
        _tell(folder, [cell.name for cell in grid.cells() if cell.seed == 0])
    return finish(failed, None if failed else folder)


def _tell(folder: Path, runs: list[str]) -> None:
    summaries = [read_json(folder / run / "summary.json") for run in runs]
    if not summaries:
        raise MetadriftError(f"the demo in {folder} has no finished run")
    names = [summary["method"] for summary in summaries]
    domains: list[str] = summaries[0]["domains"]
    steps = dict(summaries[0]["segments"])
    rows = []
    for domain in domains:
        scores = [summary["accuracy"]["per_domain"][domain] for summary in summaries]
        rows.append([domain, str(steps[domain]), *(percent(s["mean"], s["ci95"]) for s in scores)])
    title = "accuracy % on unseen classes, first seed"
    print_table(["domain", "steps", *names], rows, title, right=["steps"])
    held = [summary["memory"]["shares_by_true_domain"] for summary in summaries[1:]]
    rows = [[domain, *(percent(shares[domain]) for shares in held)] for domain in domains]
    print_table(["domain", *names[1:]], rows, "share of memory %")
    _tell_detections(summaries[-1])
    print(f"table: {folder / 'table.md'}")


def _tell_detections(summary: dict[str, Any]) -> None:
    found = summary["detection"]
    delay = "" if found["mean_delay"] is None else f", {found['mean_delay']:.0f} steps late"
    print(
        f"m2d3-pets found {found['detected']} of {found['true_changes']} changes{delay}, with "
        f"{found['false_alarms']} false alarms; it was not told that there are changes"
    )
