"""`metadrift compare`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from metadrift.errors import UsageError
from metadrift.experiments.comparison import gather, refuse_other_grid
from metadrift.experiments.display import ComparisonDisplay
from metadrift.experiments.grid import Grid, load_grid, settings_of
from metadrift.experiments.local import cores, run_locally
from metadrift.experiments.on_ray import run_on_ray
from metadrift.experiments.progress import progress_of_all
from metadrift.experiments.table import columns_of, markdown, notes_of, rows_of
from metadrift.runs.config import LearnerName, MethodOrStream, RunConfig, RunSettings
from metadrift.storage.files import write_atomically, write_json
from metadrift.storage.terminal import print_table, printable

EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class CompareArguments:
    """Run several methods, learners, shots and seeds on one benchmark and compare them.

    Finished runs are never repeated: the same command again goes on where it was stopped. The
    folder OUT/NAME holds the runs, comparison.json, table.md and report.html.
    """

    methods: tuple[MethodOrStream, ...] = ("sequential", "reservoir", "m2d3-pets")
    """What is compared."""
    learners: tuple[LearnerName, ...] = ("protonet",)
    """With which learners."""
    shots: tuple[int, ...] = (1,)
    """With how many support images a class."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """How often, and with which seeds; methods share them, so differences are paired."""
    reference: str | None = None
    """The method that differences are taken to; by default reservoir where it is among them."""
    grid: Path | None = None
    """A TOML file with variants and settings, instead of the options above and below."""
    engine: EngineName = "local"
    """Processes on this machine, or tasks on a Ray cluster (the extra metadrift[ray])."""
    workers: int = cores()
    """Local: runs at the same time; the cores are divided among them."""
    ray_address: str = "auto"
    """Ray: where the cluster is; auto finds the one that this machine belongs to."""
    out: Path = Path("comparisons")
    """Where comparisons are kept."""
    name: str = "comparison"
    """The comparison's folder."""
    json: bool = False
    """Print the result as JSON, show no progress and make no page."""
    run: Annotated[RunSettings, tyro.conf.arg(name="")] = field(default_factory=RunSettings)


def compare(words: list[str]) -> tuple[int, Path | None]:
    """Parse, run what is not finished, print the table; gives code and the folder for a page."""
    arguments = tyro.cli(CompareArguments, prog="metadrift compare", args=words)
    if arguments.workers < 1:
        raise UsageError("--workers must be at least 1")
    grid = load_grid(arguments.grid) if arguments.grid else _grid(arguments)
    address = arguments.ray_address if arguments.engine == "ray" else None
    folder = arguments.out / arguments.name
    code = run_grid(grid, folder, arguments.workers, arguments.json, address)
    return code, None if arguments.json else folder


def run_grid(
    grid: Grid, folder: Path, workers: int, quiet: bool = False, ray_address: str | None = None
) -> int:
    """Run a comparison in its folder, here or on a Ray cluster; 1 when a run failed."""
    cells = grid.cells()
    refuse_other_grid(grid, folder)
    table = progress_of_all(cells, folder, here=ray_address is None)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "grid.json", grid.to_json())
    show = ComparisonDisplay(quiet)
    if ray_address is None:
        run_locally(table, folder, workers, show)
    else:
        run_on_ray(table, folder, ray_address, show)
    show.close(table)
    result = gather(grid, folder)
    write_atomically(folder / "table.md", markdown(result))
    if quiet:
        print(json.dumps(result))
    else:
        _print(result, folder)
    failed = [entry for entry in table if entry.state == "failed"]
    for entry in failed:
        print(printable(f"failed: {entry.cell.name}: {entry.reason}"), file=sys.stderr)
    return 1 if failed else 0


def _grid(arguments: CompareArguments) -> Grid:
    reference = arguments.reference
    if reference is None and "reservoir" in arguments.methods:
        reference = "reservoir"
    return Grid(
        title=arguments.name,
        variants={method: {"method": method} for method in arguments.methods},
        learners=arguments.learners,
        shots=arguments.shots,
        seeds=arguments.seeds,
        reference=reference,
        settings=settings_of(RunConfig(**vars(arguments.run))),
    )


def _print(result: dict[str, Any], folder: Path) -> None:
    headings = [column.replace(" ", "\n") for column in columns_of(result)]
    print_table(headings, rows_of(result), result["title"])
    for note in notes_of(result):
        print(printable(note))
    print(f"comparison folder: {folder}")
