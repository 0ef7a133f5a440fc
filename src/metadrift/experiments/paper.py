"""Every experiment of the paper as a comparison, with the paper's numbers beside ours.

An experiment is a comparison (see grid.py) in `paper/NAME.toml`. Its variants give sizes
(memory.capacity, variance_every) for the full length; --scale shrinks them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from metadrift.data.library import data_folder
from metadrift.errors import MetadriftError, UsageError
from metadrift.experiments.grid import Grid, parse_grid, settings_of
from metadrift.runs.config import RunConfig, RunSettings
from metadrift.storage.reading import parse_toml, toml_files
from metadrift.storage.tables import did_you_mean, merged
from metadrift.streams.benchmark import Benchmark, benchmark_names, load_benchmark, open_packs

PAPER = "Wang et al., ICCV 2021"


def experiment_names() -> list[str]:
    """The experiments, by the names of their files."""
    return sorted(toml_files("metadrift.experiments", "paper"))


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
    files = toml_files("metadrift.experiments", "paper")
    if name not in files:
        hint = did_you_mean(name, files) or f"; there are {', '.join(sorted(files))}"
        raise UsageError(f"the paper has no experiment {name!r}{hint}")
    return parse_grid(parse_toml(files[name].read_text(encoding="utf-8"), name), name, name)


def cost_of(name: str, scale: float, steps_per_s: float | None = None) -> dict[str, Any]:
    """An experiment's title, runs and steps, and its hours if a speed is given."""
    grid = load_experiment(name)
    runs = len(grid.cells())
    benchmark = load_benchmark(grid.settings["benchmark"])
    steps = runs * benchmark.scaled(scale).steps
    cost = {"name": name, "title": grid.title, "source": grid.source, "runs": runs, "steps": steps}
    return cost if steps_per_s is None else {**cost, "hours": steps / steps_per_s / 3600}


def choose_data(run: RunSettings, stand_ins: bool = False) -> tuple[str, str]:
    """The benchmark to run on, and a sentence that says what data that is.

    The built-in version of `paper-NAME` is `builtin-NAME`. With --data the user wants the real
    data, so a missing pack is an error.
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
    """The comparison with these settings. Sizes in its variants shrink with the scale."""
    full = load_benchmark(run.benchmark)
    small = full.scaled(run.scale)
    variants = {name: _shrunk(own, full, run.scale) for name, own in grid.variants.items()}
    notes = [said, f"scale {run.scale:g}: {small.describe()}", *_merged_sizes(grid, variants)]
    if grid.published:
        notes.append(
            f"the paper's %: {grid.source} of {PAPER}, at scale 1 on its six datasets at 84 px, "
            "three runs; it does not say what its ± is"
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
    """A warning if memories of different sizes become the same size at this scale."""
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
