"""Run a comparison, on this machine or on a Ray cluster, and gather its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metadrift.experiments.comparison import gather, refuse_other_grid
from metadrift.experiments.display import ComparisonDisplay
from metadrift.experiments.grid import Grid
from metadrift.experiments.local import run_locally
from metadrift.experiments.on_ray import run_on_ray
from metadrift.experiments.precision import settled
from metadrift.experiments.progress import Progress, progress_of_all
from metadrift.experiments.table import markdown
from metadrift.storage.files import write_atomically, write_json


@dataclass(frozen=True)
class Engine:
    """Where to do the runs of a comparison."""

    workers: int = 1
    """Runs at the same time on this machine."""
    ray_address: str | None = None
    """The address of a Ray cluster that does the runs."""


def run_grid(
    grid: Grid, folder: Path, engine: Engine, quiet: bool = False
) -> tuple[dict[str, Any], list[Progress]]:
    """Do the unfinished runs. Returns the result, and the runs that failed.

    Writes comparison.json and table.md into the folder.
    """
    display = ComparisonDisplay(quiet)
    here = engine.ray_address is None
    grid, notes = settled(grid, folder, here)
    refuse_other_grid(grid, folder)
    runs = progress_of_all(grid.cells(), folder, here)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "grid.json", grid.to_json())
    for note in notes:
        display.say(note)
    if engine.ray_address is None:
        run_locally(runs, folder, engine.workers, display)
    else:
        run_on_ray(runs, folder, engine.ray_address, display)
    display.close(runs)
    result = gather(grid, folder)
    write_atomically(folder / "table.md", markdown(result))
    return result, [run for run in runs if run.state == "failed"]
