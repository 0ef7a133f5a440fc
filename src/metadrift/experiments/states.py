"""The progress of runs, read from their folders: one run, a comparison, or a folder of runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from metadrift import registry
from metadrift.errors import MetadriftError
from metadrift.experiments.comparison import saved_grid
from metadrift.runs.build import plan
from metadrift.runs.config import RunConfig, load_config
from metadrift.runs.folder_lock import LOCK
from metadrift.runs.record import read_last_line
from metadrift.storage.progress import duration
from metadrift.storage.reading import read_json
from metadrift.storage.tables import from_table

SILENT = 120.0  # seconds without a new line
_NAMES = ("config.toml", "grid.json")


@dataclass(frozen=True)
class State:
    """The progress of one run. `accuracy` is on arriving tasks; once done, of the final test."""

    run: str
    state: str
    """waiting, running, silent (killed, or nothing written for two minutes), stopped or done."""
    step: int
    steps: int
    accuracy: float | None
    statistic: float | None
    threshold: float | None
    latent_domain: int | None
    steps_per_s: float | None

    def cells(self) -> list[str]:
        """The state as text."""
        left = ""
        if self.state == "running" and self.steps_per_s:
            left = duration((self.steps - self.step) / self.steps_per_s)
        watched = self.threshold is not None and self.statistic is not None
        return [
            self.run,
            self.state,
            f"{self.step}/{self.steps}" if self.steps else str(self.step),
            "" if self.accuracy is None else f"{100 * self.accuracy:.1f}",
            f"{self.statistic:.3f} / {self.threshold:.3f}" if watched else "",
            "" if self.latent_domain is None else str(self.latent_domain),
            "" if self.steps_per_s is None else f"{self.steps_per_s:.1f}",
            left,
        ]


@registry.any_name()
def states_of(folder: Path, now: float | None = None) -> list[State]:
    """One state per run, in the order of the comparison, or by name in a folder of runs."""
    if (folder / "grid.json").is_file():
        cells = saved_grid(folder).cells()
        return [_state(folder / cell.name, cell.config, now) for cell in cells]
    if (folder / "config.toml").is_file():
        return [_state(folder, load_config(folder / "config.toml"), now)]
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [child for child in inside if any((child / name).is_file() for name in _NAMES)]
    if not found:
        raise MetadriftError(
            f"{folder} is neither a run (it has no config.toml) nor a comparison (no grid.json), "
            "and holds none"
        )
    return [state for child in found for state in states_of(child, now)]


@dataclass(frozen=True)
class _Line:
    """The fields of a line of metrics that are shown."""

    step: int = 0
    accuracy: float | None = None
    statistic: float | None = None
    threshold: float | None = None
    latent_domain: int | None = None
    steps_per_s: float | None = None


@dataclass(frozen=True)
class _Score:
    mean: float


@dataclass(frozen=True)
class _Summary:
    """The fields of a summary that are shown."""

    steps: int
    accuracy: _Score


def _state(folder: Path, config: RunConfig, now: float | None) -> State:
    metrics, done = folder / "metrics.jsonl", folder / "summary.json"
    last = read_last_line(metrics)
    line = from_table(_Line, last or {}, str(metrics), more_keys=True)
    step, accuracy = line.step, line.accuracy
    try:
        steps = plan(config).steps
    except MetadriftError:  # the benchmark's own file is gone
        steps = 0
    if done.is_file():
        summary = from_table(_Summary, read_json(done), str(done), more_keys=True)
        state, step, accuracy = "done", summary.steps, summary.accuracy.mean
    elif last is None:
        state = "waiting"
    elif not (folder / LOCK).exists():
        state = "stopped"
    else:
        age = (time.time() if now is None else now) - metrics.stat().st_mtime
        state = "running" if age < SILENT else "silent"
    return State(
        folder.resolve().name,
        state,
        step,
        steps,
        accuracy,
        line.statistic,
        line.threshold,
        line.latent_domain,
        line.steps_per_s,
    )
