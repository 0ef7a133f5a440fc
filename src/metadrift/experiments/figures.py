"""The paper's figures as tables: shares of memory, and the variance of replay."""

from __future__ import annotations

from collections import defaultdict
from math import isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Any

from metadrift.experiments.grid import Grid
from metadrift.experiments.table import shares_table
from metadrift.runs.record import read_lines
from metadrift.storage.files import write_atomically
from metadrift.storage.reading import read_json
from metadrift.storage.terminal import print_table

CURVE = ["learner", "shots", "variant", "step", "uniform", "PETS", "PETS/uniform", "least/uniform"]


def show_figures(grid: Grid, folder: Path, quiet: bool = False) -> None:
    """Print variance curves, or shares of memory if the paper has no numbers to compare with.

    The curves also go to `variance.csv` in the comparison's folder.
    """
    curve = variance_curve(grid, folder)
    if curve:
        lines = [",".join(CURVE), *(",".join(f'"{cell}"' for cell in row) for row in curve)]
        write_atomically(folder / "variance.csv", "\n".join(lines) + "\n")
    if quiet:
        return
    if curve:
        print_table(CURVE, curve, "trace of the replay gradient's covariance, mean over seeds")
    elif not grid.published:
        shares = shares_table(read_json(folder / "comparison.json"))
        print_table(*shares, title="share of memory %")


def variance_curve(grid: Grid, folder: Path) -> list[list[str]]:
    """One row per measured step of each variant, mean over the seeds that have it."""
    found: dict[tuple[Any, ...], list[list[float]]] = defaultdict(list)
    for cell in grid.cells():
        for event in read_lines(folder / cell.name / "events.jsonl", damaged=[]):
            if event.get("event") == "variance":
                key = (cell.learner, cell.shots, cell.variant, event["step"])
                # Runs of earlier versions did not measure the least.
                found[key].append([event.get(name, nan) for name in ("uniform", "pets", "least")])
    rows = []
    for key, seeds in found.items():
        uniform, pets, least = map(fmean, zip(*seeds, strict=True))
        known = [part / uniform if uniform > 0 else nan for part in (pets, least)]
        ratios = ["" if isnan(ratio) else f"{ratio:.2f}" for ratio in known]
        rows.append([*map(str, key), f"{uniform:.4g}", f"{pets:.4g}", *ratios])
    return rows
