"""`metadrift compare`: run methods, learners, shots and seeds and compare them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from metadrift import registry
from metadrift.commands.arguments import in_full, known_names, parse, value_of
from metadrift.commands.short_help import ShortHelp
from metadrift.errors import UsageError
from metadrift.experiments.grid import Grid, load_grid, settings_of
from metadrift.experiments.local import cores
from metadrift.experiments.progress import Progress
from metadrift.experiments.run_grid import Engine, run_grid
from metadrift.experiments.table import columns_of, narrowed, notes_of, rows_of
from metadrift.report.make import make_report
from metadrift.runs.config import STREAMS, RunConfig, RunSettings, load_config
from metadrift.storage.terminal import print_table, printable

EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class CompareArguments:
    """Run several methods, learners, shots and seeds on one benchmark and compare them.

    The same command again continues where it stopped, and repeats no finished run. The folder
    OUT/NAME holds the runs, comparison.json, table.md and report.html.
    """

    methods: tuple[str, ...] = ("sequential", "reservoir", "m2d3-pets")
    """Methods to compare: names, package.module:Name or file.py:Name."""
    learners: tuple[str, ...] = ("protonet",)
    """Learners to combine them with."""
    shots: tuple[int, ...] = (1,)
    """Numbers of support images per class."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds, one run for each; methods share them, so differences are paired."""
    reference: str | None = None
    """The method to compare the others with; by default reservoir, if it is among them."""
    grid: Path | None = None
    """A TOML file with variants and settings, instead of the options above and below."""
    plugin: tuple[str, ...] = ()
    """Your own code that the grid uses. Name it again: package.module:Name or file.py:Name."""
    engine: EngineName = "local"
    """Processes on this machine, or tasks on a Ray cluster (the extra metadrift[ray])."""
    workers: int = cores()
    """Local: runs at the same time; the cores are divided among them."""
    ray_address: str = "auto"
    """Ray: where the cluster is; auto finds the one that this machine belongs to."""
    out: Path = Path("comparisons")
    """The folder for comparisons."""
    name: str = "comparison"
    """The comparison's folder."""
    json: bool = False
    """Print the result as JSON, show no progress and make no page."""
    run: Annotated[RunSettings, tyro.conf.arg(name="")] = field(default_factory=RunSettings)

    def __post_init__(self) -> None:
        for method in self.methods:
            registry.check("methods", method, also=STREAMS)
        for learner in self.learners:
            registry.check("learners", learner)


HELP = ShortHelp(
    examples=[
        ("--scale 0.05 --shots 5", "three methods, three seeds, a twentieth of the stream"),
        ("--methods reservoir mir --benchmark mine.toml --name mine", "on a custom stream"),
        ("--grid FILE.toml", "variants with their own settings, from a file"),
    ],
    settings="methods learners backbone shots seeds reference grid benchmark scale data workers "
    "name",
)


def main(words: list[str]) -> int:
    if any(word.startswith("--options.") for word in words):
        raise UsageError(
            "variants differ in the options they have: write them in a --grid file, as options.NAME"
        )
    words = in_full(words)
    default = _default(value_of("--benchmark", words))
    arguments = parse(CompareArguments, "compare", words, default, known_names(), HELP)
    grid = load_grid(arguments.grid) if arguments.grid else _grid(arguments)
    folder = arguments.out / arguments.name
    engine = make_engine(arguments.engine, arguments.workers, arguments.ray_address)
    result, failed = run_grid(grid, folder, engine, quiet=arguments.json)
    print_result(result, folder, arguments.json)
    return finish(failed, None if arguments.json else folder)


def _default(benchmark: str | None) -> CompareArguments:
    """What the words leave out, with the settings of the benchmark's file."""
    if benchmark is None:
        return CompareArguments()
    begin = load_config(None, benchmark)
    usual = CompareArguments.methods
    return CompareArguments(
        methods=usual if begin.method in usual else (*usual, begin.method),
        learners=(begin.learner,),
        shots=(begin.shots,),
        run=RunSettings(**{one.name: getattr(begin, one.name) for one in fields(RunSettings)}),
    )


def make_engine(name: EngineName, workers: int, ray_address: str) -> Engine:
    """The engine that the options name."""
    if workers < 1:
        raise UsageError("--workers must be at least 1")
    return Engine(workers, ray_address if name == "ray" else None)


def print_result(result: dict[str, Any], folder: Path, as_json: bool = False) -> None:
    """Print a comparison as a table or as JSON."""
    if as_json:
        print(json.dumps(result))
        return
    columns, rows, same = narrowed(columns_of(result), rows_of(result))
    headings = [column.replace(" ", "\n") for column in columns]
    print_table(headings, rows, ", ".join([result["title"], *same]))
    for note in notes_of(result):
        print(printable(note))
    print(f"comparison folder: {folder}")


def finish(failed: list[Progress], folder: Path | None) -> int:
    """Name the runs that failed, and write the page of a folder; 1 when a run failed."""
    for run in failed:
        print(printable(f"failed: {run.cell.name}: {run.reason}"), file=sys.stderr)
    if folder is not None:
        page, _ = make_report(folder)
        print(f"report: {page}")
    return 1 if failed else 0


def _grid(arguments: CompareArguments) -> Grid:
    reference = arguments.reference
    if reference is None and "reservoir" in arguments.methods:
        reference = "reservoir"
    return Grid(
        title=arguments.name,
        variants={registry.short(name): {"method": name} for name in arguments.methods},
        learners=arguments.learners,
        shots=arguments.shots,
        seeds=arguments.seeds,
        reference=reference,
        settings=settings_of(RunConfig(**vars(arguments.run))),
    )
