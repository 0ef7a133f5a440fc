"""One precision for all runs of a comparison, so that it adds no difference between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from metadrift.errors import UsageError
from metadrift.experiments.comparison import saved_grid
from metadrift.experiments.grid import Grid
from metadrift.runs.prepare import settle_precision


def settled(grid: Grid, folder: Path, here: bool = True) -> tuple[Grid, list[str]]:
    """Replace `precision = "auto"` by one choice for all runs. Also returns notes about it.

    A comparison that has begun keeps its precision. A new one takes bf16 where that is faster for
    each of its learners. `here` is False when other machines do the runs.
    """
    cells = [cell for cell in grid.cells() if cell.config.precision == "auto"]
    if not cells:
        return grid, []
    if not here:
        raise UsageError(
            "--precision auto is measured on the machine that computes, which with Ray may be any: "
            "choose float32 or bf16"
        )
    names = {cell.name for cell in cells}
    before = saved_grid(folder).cells() if (folder / "grid.json").is_file() else []
    kept = [cell.config.precision for cell in before if cell.name in names]
    if kept:
        return _with(grid, kept[0]), [f"precision {kept[0]}: {folder} was begun with it"]
    found = {cell.learner: settle_precision(cell.config) for cell in reversed(cells)}
    each = {config.precision for config, _ in found.values()}
    notes = [f"{learner}: {why}" for learner, (_, why) in found.items()]
    if len(each) > 1:
        notes.append("precision float32 for all, so that the table has one")
    return _with(grid, "bf16" if each == {"bf16"} else "float32"), notes


def _with(grid: Grid, precision: str) -> Grid:
    def one(settings: dict[str, Any]) -> dict[str, Any]:
        auto = settings.get("precision") == "auto"
        return {**settings, "precision": precision} if auto else settings

    variants = {name: one(settings) for name, settings in grid.variants.items()}
    return replace(grid, settings=one(grid.settings), variants=variants)
