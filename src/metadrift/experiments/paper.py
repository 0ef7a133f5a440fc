"""`metadrift paper`: every experiment of the paper, with the paper's numbers beside ours.

An experiment is a comparison (see grid.py) in `paper/NAME.toml`. What stands in its variants
(memory.capacity, variance_every) is at full size and shrinks with --scale.
"""

from __future__ import annotations

import json as json_text
import sys
import tomllib
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import tyro

from metadrift.domains.library import data_folder
from metadrift.errors import MetadriftError, UsageError
from metadrift.experiments.commands import EngineName, run_grid
from metadrift.experiments.figures import show_figures
from metadrift.experiments.grid import Grid, merged, parse_grid, settings_of
from metadrift.experiments.local import cores
from metadrift.experiments.table import console_for_tables
from metadrift.runs.config import RunConfig, RunSettings, from_table
from metadrift.streams.benchmark import Benchmark, benchmark_names, load_benchmark, open_packs

PAPER = "Wang et al., ICCV 2021"
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
    from rich.table import Table

    table = Table("name", "what", "in the paper", title=f"the paper's experiments, scale {scale:g}")
    for column in ("runs", "steps", *(["hours"] if steps_per_s else [])):
        table.add_column(column, justify="right")
    for row in rows:
        hours = [f"{row['hours']:,.1f}"] if steps_per_s else []
        counts = [str(row["runs"]), f"{row['steps']:,}", *hours]
        table.add_row(row["name"], row["title"], row["source"].split(",")[0], *counts)
    console = console_for_tables()
    console.print(table)
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
    console.print(note, highlight=False, soft_wrap=True)
    return 0


def experiment_names() -> list[str]:
    """The experiments, by the names of their files."""
    folder = resources.files("metadrift.experiments") / "paper"
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def load_experiment(name: str) -> Grid:
    """An experiment of the paper as a comparison at full size.

    Examples
    --------
    >>> grid = load_experiment("memory-pnet")
    >>> grid.source
    'Table 3 (tab:ablation-memory1), Effect of Memory Capacity'
    >>> grid.published[0]
    Published(variant='reservoir n=200', learner='protonet', shots=1, mean=34.12, half_width=1.12)
    """
    if name not in experiment_names():
        known = ", ".join(experiment_names())
        raise UsageError(f"the paper has no experiment {name!r}; there are {known}")
    file = resources.files("metadrift.experiments") / "paper" / f"{name}.toml"
    return parse_grid(tomllib.loads(file.read_text(encoding="utf-8")), name, name)


def choose_data(run: RunSettings, stand_ins: bool = False) -> tuple[str, str]:
    """The benchmark to run on, and a sentence that says what data that is.

    The built-in twin of `paper-NAME` is `builtin-NAME`. Who names a folder with --data wants the
    real data, so there a missing pack is an error.
    """
    real = load_benchmark(run.benchmark)
    twin = run.benchmark.replace("paper", "builtin", 1)
    if real.packs == "builtin":
        return run.benchmark, f"data: the built-in domains at {run.size} px"
    folder = data_folder(run.data)
    lacking = [name for name in real.domains if not (folder / name).is_dir()]
    if twin not in benchmark_names() or not (stand_ins or lacking):
        size = next(iter(open_packs(real, run.data).values())).image_size
        return run.benchmark, f"data: the packs in {folder} at {size} px"
    if lacking and run.data is not None and not stand_ins:
        raise MetadriftError(
            f"there is no pack {', '.join(lacking)} in {folder}; `metadrift data import` makes "
            "them, and --stand-ins instead of --data runs on the built-in domains"
        )
    why = "as asked for" if stand_ins else f"as {folder} has no pack {', '.join(lacking)}"
    pairs = zip(load_benchmark(twin).domains, real.domains, strict=True)
    listed = ", ".join(f"{ours} for {theirs}" for ours, theirs in pairs)
    return twin, f"data: built-in domains at {run.size} px stand in ({listed}), {why}"


def fitted(grid: Grid, run: RunSettings, said: str) -> Grid:
    """The comparison with these settings: what its variants set at full size shrinks with scale."""
    full = load_benchmark(run.benchmark)
    small = full.scaled(run.scale)
    variants = {name: _shrunk(own, full, run.scale) for name, own in grid.variants.items()}
    notes = [said, f"scale {run.scale:g}: {small.describe()}", *_merged_sizes(grid, variants)]
    if grid.published:
        notes.append(
            f"the paper's %: {grid.source} of {PAPER}, at scale 1 on its six datasets at 84 px, "
            "three runs; it does not say what its ± is. Ours is a 95 % interval over seeds."
        )
    else:
        notes.append(f"in the paper: {grid.source} of {PAPER}")
    return replace(
        grid,
        title=f"{grid.title} ({Path(run.benchmark).stem}, scale {run.scale:g})",
        variants=variants,
        settings=settings_of(RunConfig(**vars(run))),
        notes=(*notes, *grid.notes),
    )


def _shrunk(own: dict[str, Any], full: Benchmark, scale: float) -> dict[str, Any]:
    table = merged(own, {})
    capacity = table.get("memory", {}).get("capacity")
    if capacity:
        table["memory"]["capacity"] = replace(full, memory=capacity).scaled(scale).memory
    if "variance_every" in table:
        table["variance_every"] = max(10, round(table["variance_every"] * scale))
    return table


def _merged_sizes(grid: Grid, variants: dict[str, dict[str, Any]]) -> list[str]:
    """A warning where memories that differ at full size are one size at this scale."""
    became: dict[int, set[int]] = {}
    for name, own in grid.variants.items():
        if "capacity" in own.get("memory", {}):
            small = variants[name]["memory"]["capacity"]
            became.setdefault(small, set()).add(own["memory"]["capacity"])
    return [
        f"at this scale memories of {' and '.join(map(str, sorted(sizes)))} batches are all {small}"
        ", the least that is kept, so their rows repeat each other"
        for small, sizes in became.items()
        if len(sizes) > 1
    ]


def _cost(name: str, scale: float, steps_per_s: float | None) -> dict[str, Any]:
    grid = load_experiment(name)
    runs = len(grid.cells())
    benchmark = load_benchmark((grid.settings or {})["benchmark"])
    steps = runs * benchmark.scaled(scale).steps
    cost = {"name": name, "title": grid.title, "source": grid.source, "runs": runs, "steps": steps}
    return cost if steps_per_s is None else {**cost, "hours": steps / steps_per_s / 3600}
