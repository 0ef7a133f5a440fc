"""`metadrift paper` and `metadrift paper list`."""

from __future__ import annotations

import json as json_text
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from metadrift.commands.compare import EngineName, run_grid
from metadrift.errors import UsageError
from metadrift.experiments.figures import show_figures
from metadrift.experiments.local import cores
from metadrift.experiments.paper import choose_data, experiment_names, fitted, load_experiment
from metadrift.runs.config import RunSettings, from_table
from metadrift.storage.terminal import print_table
from metadrift.streams.benchmark import load_benchmark

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class PaperArguments:
    """Run an experiment of the paper; the paper's own numbers stand beside ours in the table.

    `metadrift paper list` names the experiments. The real datasets are used where all of them are
    imported; else the built-in domains stand in for them, in the same order and with the same
    lengths, and the output says so. The same command again goes on where it was stopped.
    """

    experiment: tyro.conf.Positional[str]
    """Which one."""
    variants: tuple[str, ...] | None = None
    """Only these rows of the experiment."""
    shots: tuple[int, ...] | None = None
    """Only with so many support images a class; by default the paper's."""
    seeds: tuple[int, ...] | None = None
    """The seeds; by default 0 1 2, as the paper has three runs."""
    stand_ins: Flag = False
    """Use the built-in domains even where the real datasets are imported."""
    engine: EngineName = "local"
    """Processes on this machine, or tasks on a Ray cluster (the extra metadrift[ray])."""
    workers: int = cores()
    """Local: runs at the same time; the cores are divided among them."""
    ray_address: str = "auto"
    """Ray: where the cluster is; auto finds the one that this machine belongs to."""
    out: Path = Path("comparisons")
    """Where comparisons are kept."""
    name: str | None = None
    """The comparison's folder; by default made from experiment, scale and data."""
    json: Flag = False
    """Print the result as JSON, show no progress and make no page."""
    run: Annotated[RunSettings, tyro.conf.arg(name="")] = field(default_factory=RunSettings)


def paper(words: list[str]) -> tuple[int, Path | None]:
    """Parse against the experiment's own settings, run what is not finished, show the table.

    Gives the exit code, and the folder for a page.
    """
    if not words or words[0] not in experiment_names():
        if {"-h", "--help"} & set(words):
            tyro.cli(PaperArguments, prog="metadrift paper", args=["--help"])
        raise UsageError(f"name an experiment first: {', '.join(experiment_names())}")
    own = from_table(load_experiment(words[0]).settings or {}, words[0])
    run = RunSettings(**{f.name: getattr(own, f.name) for f in fields(RunSettings)})
    default = PaperArguments(words[0], run=run)
    arguments = tyro.cli(PaperArguments, prog="metadrift paper", args=words, default=default)
    if arguments.workers < 1:
        raise UsageError("--workers must be at least 1")
    grid = load_experiment(arguments.experiment)
    grid = grid.selected(arguments.variants, arguments.shots, arguments.seeds)
    benchmark, said = choose_data(arguments.run, arguments.stand_ins)
    grid = fitted(grid, replace(arguments.run, benchmark=benchmark), said)
    print(said, file=sys.stderr)
    name = f"paper-{arguments.experiment}-{Path(benchmark).stem}-{arguments.run.scale:g}"
    folder = arguments.out / (arguments.name or name)
    address = arguments.ray_address if arguments.engine == "ray" else None
    code = run_grid(grid, folder, arguments.workers, arguments.json, address)
    show_figures(grid, folder, quiet=arguments.json)
    return code, None if arguments.json else folder


def list_experiments(
    scale: float = 1.0, steps_per_s: float | None = None, json: Flag = False
) -> int:
    """The experiments of the paper: what each is, how many runs, how many training steps.

    Parameters
    ----------
    scale
        Count the steps at this scale.
    steps_per_s
        Training steps a second, as measured here: the steps_per_s in a run's summary.json. Gives
        hours, for one run after the other and without the time of evaluation.
    json
        Print the list as JSON.
    """
    if steps_per_s is not None and not steps_per_s > 0:
        raise UsageError(f"--steps-per-s must be above 0, not {steps_per_s}")
    rows = [_cost(name, scale, steps_per_s) for name in experiment_names()]
    rows.sort(key=lambda row: (row["source"].startswith("Figure"), row["source"]))
    if json:
        print(json_text.dumps(rows))
        return 0
    counted = ["runs", "steps", *(["hours"] if steps_per_s else [])]
    cells = []
    for row in rows:
        hours = [f"{row['hours']:,.1f}"] if steps_per_s else []
        counts = [str(row["runs"]), f"{row['steps']:,}", *hours]
        cells.append([row["name"], row["title"], row["source"].split(",")[0], *counts])
    title = f"the paper's experiments, scale {scale:g}"
    print_table(["name", "what", "in the paper", *counted], cells, title, right=counted)
    if steps_per_s:
        note = (
            f"hours are steps at {steps_per_s:g} a second, the figure you gave, one run after the "
            "other; evaluation is not in it, and methods differ (gss and mir compute most a step)"
        )
    else:
        note = (
            "hours need a speed measured on this machine: --steps-per-s takes the steps_per_s of a "
            "finished run's summary.json"
        )
    print(note)
    return 0


def _cost(name: str, scale: float, steps_per_s: float | None) -> dict[str, Any]:
    grid = load_experiment(name)
    runs = len(grid.cells())
    benchmark = load_benchmark((grid.settings or {})["benchmark"])
    steps = runs * benchmark.scaled(scale).steps
    cost = {"name": name, "title": grid.title, "source": grid.source, "runs": runs, "steps": steps}
    return cost if steps_per_s is None else {**cost, "hours": steps / steps_per_s / 3600}
