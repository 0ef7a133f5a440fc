"""`metadrift paper`: run an experiment of the paper, with its numbers beside ours."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated

import tyro

from metadrift.commands.arguments import Flag, parse
from metadrift.commands.compare import EngineName, finish, make_engine, print_result
from metadrift.commands.short_help import ShortHelp
from metadrift.errors import UsageError
from metadrift.experiments.figures import show_figures
from metadrift.experiments.local import cores
from metadrift.experiments.paper import choose_data, experiment_names, fitted, load_experiment
from metadrift.experiments.run_grid import run_grid
from metadrift.runs.config import RunSettings, from_table


@dataclass(frozen=True)
class PaperArguments:
    """Run an experiment of the paper. The table shows the paper's numbers beside ours.

    `metadrift paper list` names the experiments. If all real datasets are imported, they are used.
    Otherwise the built-in domains replace them, in the same order and with the same lengths, and
    the output says so. The same command again continues where it stopped.
    """

    experiment: tyro.conf.Positional[str]
    """The experiment."""
    variants: tuple[str, ...] | None = None
    """Only these rows of the experiment."""
    shots: tuple[int, ...] | None = None
    """Only with these numbers of support images per class; by default the paper's."""
    seeds: tuple[int, ...] | None = None
    """The seeds; by default 0 1 2, as the paper has three runs."""
    stand_ins: Flag = False
    """Use the built-in domains even if the real datasets are imported."""
    engine: EngineName = "local"
    """Processes on this machine, or tasks on a Ray cluster (the extra metadrift[ray])."""
    workers: int = cores()
    """Local: runs at the same time; the cores are divided among them."""
    ray_address: str = "auto"
    """Ray: where the cluster is; auto finds the one that this machine belongs to."""
    out: Path = Path("comparisons")
    """The folder for comparisons."""
    name: str | None = None
    """The comparison's folder; by default made from experiment, scale and data."""
    json: Flag = False
    """Print the result as JSON, show no progress and make no page."""
    run: Annotated[RunSettings, tyro.conf.arg(name="")] = field(default_factory=RunSettings)


HELP = ShortHelp(
    examples=[
        ("pnet --scale 0.05", "Table 1 at a twentieth of its size"),
        ("pnet --variants reservoir m2d3-pets --seeds 0 --data packs84", "a part of it, real data"),
    ],
    settings="variants shots seeds stand_ins scale data workers out name",
)


def main(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        if {"-h", "--help", "--help-all"} & set(words):
            parse(PaperArguments, "paper", words, PaperArguments("EXPERIMENT"), short_help=HELP)
        raise UsageError(f"name an experiment first: {', '.join(experiment_names())}")
    grid = load_experiment(words[0])
    own = from_table(grid.settings, words[0])
    run = RunSettings(**{f.name: getattr(own, f.name) for f in fields(RunSettings)})
    # Options are read against the experiment's own settings.
    arguments = parse(
        PaperArguments, "paper", words, PaperArguments(words[0], run=run), short_help=HELP
    )
    engine = make_engine(arguments.engine, arguments.workers, arguments.ray_address)
    grid = grid.selected(arguments.variants, arguments.shots, arguments.seeds)
    benchmark, said = choose_data(arguments.run, arguments.stand_ins)
    grid = fitted(grid, replace(arguments.run, benchmark=benchmark), said)
    print(said, file=sys.stderr)
    name = f"paper-{arguments.experiment}-{Path(benchmark).stem}-{arguments.run.scale:g}"
    folder = arguments.out / (arguments.name or name)
    result, failed = run_grid(grid, folder, engine, quiet=arguments.json)
    print_result(result, folder, arguments.json)
    show_figures(grid, folder, quiet=arguments.json)
    return finish(failed, None if arguments.json else folder)
