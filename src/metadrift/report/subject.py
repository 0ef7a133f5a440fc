"""The subject of a report: a run or a comparison, read from its folder, finished or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metadrift import registry
from metadrift.errors import MetadriftError
from metadrift.experiments.comparison import collect, saved_grid
from metadrift.experiments.grid import Grid
from metadrift.runs.build import plan
from metadrift.runs.config import RunConfig, load_config, mark_of
from metadrift.runs.record import read_lines
from metadrift.storage.reading import read_json


@dataclass(frozen=True)
class RunData:
    """One run, read from its folder. `summary` is None until the run is finished."""

    folder: Path
    config: RunConfig
    summary: dict[str, Any] | None
    metrics: list[dict[str, Any]]
    events: list[dict[str, Any]]
    segments: list[tuple[str, int]]
    """Domain and steps of each stay; empty when the benchmark's file is gone."""
    damaged: list[str] = field(default_factory=list)
    """Why some lines were left out."""

    @property
    def steps(self) -> int:
        """All steps of the run."""
        return sum(steps for _, steps in self.segments)

    @property
    def step(self) -> int:
        """Steps done."""
        if self.summary is not None:
            return self.steps
        return int(self.metrics[-1]["step"]) if self.metrics else 0

    @property
    def domains(self) -> list[str]:
        return list(dict.fromkeys(domain for domain, _ in self.segments))

    def stays(self) -> list[tuple[str, int, int]]:
        """Domain, first step and end of each stay; none for streams without an order."""
        if self.config.method in ("joint", "independent"):
            return []
        found: list[tuple[str, int, int]] = []
        for domain, steps in self.segments:
            if found and found[-1][0] == domain:
                found[-1] = (domain, found[-1][1], found[-1][2] + steps)
            else:
                first = found[-1][2] if found else 0
                found.append((domain, first, first + steps))
        return found

    def happened(self, *what: str) -> list[dict[str, Any]]:
        """The events of these kinds."""
        return [event for event in self.events if event.get("event") in what]


@dataclass(frozen=True)
class Variant:
    """One row of a table: a method or a variant of one, with one run per seed."""

    key: int
    """Its number among the variants. It sets the colour, and the page uses it to hide rows."""
    name: str
    runs: list[RunData]
    row: dict[str, Any] | None
    """Its numbers as `comparison.json` has them; None while no run is finished."""

    @property
    def oracle(self) -> bool:
        return any(run.config.oracle for run in self.runs)

    @property
    def label(self) -> str:
        return self.name + mark_of(self.runs[0].config.method, self.oracle)


@dataclass(frozen=True)
class Group:
    """The variants of one learner and one number of shots, which can be compared."""

    learner: str
    shots: int
    variants: list[Variant]

    @property
    def title(self) -> str:
        return f"{self.learner}, {self.shots}-shot"

    @property
    def runs(self) -> list[RunData]:
        return [run for variant in self.variants for run in variant.runs]

    @property
    def domains(self) -> list[str]:
        return list(dict.fromkeys(name for run in self.runs for name in run.domains))

    @property
    def stays(self) -> list[tuple[str, int, int]]:
        """The stays of the stream, which all runs share; see `RunData.stays`."""
        return next((stays for run in self.runs if (stays := run.stays())), [])

    @property
    def steps(self) -> float:
        """The steps of the longest run, at least 1."""
        return float(max((run.steps for run in self.runs), default=0) or 1)


@dataclass(frozen=True)
class Subject:
    """A run or a comparison."""

    title: str
    folder: Path
    groups: list[Group]
    grid: Grid | None
    """None for a single run."""

    @property
    def runs(self) -> list[RunData]:
        return [run for group in self.groups for run in group.runs]

    @property
    def finished(self) -> int:
        return sum(run.summary is not None for run in self.runs)


@registry.any_name()
def read_subject(folder: Path) -> Subject:
    """Read the folder of a run or of a comparison."""
    if (folder / "grid.json").is_file():
        return _comparison(folder)
    if (folder / "config.toml").is_file():
        run = read_run(folder, load_config(folder / "config.toml"))
        row = None if run.summary is None else _row_of(run.summary)
        variant = Variant(0, run.config.method, [run], row)
        group = Group(run.config.learner, run.config.shots, [variant])
        return Subject(folder.resolve().name, folder, [group], None)
    raise MetadriftError(
        f"{folder} is neither a run (it has no config.toml) nor a comparison (no grid.json)"
    )


def read_run(folder: Path, config: RunConfig) -> RunData:
    """Read a run as far as it exists. A run that has not begun has no folder yet."""
    file = folder / "summary.json"
    summary = read_json(file) if file.is_file() else None
    damaged: list[str] = []
    return RunData(
        folder=folder,
        config=config,
        summary=summary,
        metrics=read_lines(folder / "metrics.jsonl", damaged),
        events=read_lines(folder / "events.jsonl", damaged),
        segments=_segments(config, summary),
        damaged=damaged,
    )


def _comparison(folder: Path) -> Subject:
    grid = saved_grid(folder)
    rows = {
        (row["variant"], row["learner"], row["shots"]): row for row in collect(grid, folder)["rows"]
    }
    runs: dict[tuple[str, str, int], list[RunData]] = {}
    for cell in grid.cells():
        place = (cell.variant, cell.learner, cell.shots)
        runs.setdefault(place, []).append(read_run(folder / cell.name, cell.config))

    def variants(learner: str, shots: int) -> list[Variant]:
        places = [(name, learner, shots) for name in grid.variants]
        return [Variant(k, p[0], runs[p], rows.get(p)) for k, p in enumerate(places)]

    groups = [
        Group(learner, shots, variants(learner, shots))
        for shots in grid.shots
        for learner in grid.learners
    ]
    return Subject(grid.title, folder, groups, grid)


def _row_of(summary: dict[str, Any]) -> dict[str, Any]:
    """A finished run as a row of a comparison. Its intervals are over test tasks."""
    return {
        "seeds": [summary["seed"]],
        "accuracy": summary["accuracy"],
        "per_domain": summary["accuracy"]["per_domain"],
        "forgetting": summary["forgetting"],
        "backward_transfer": summary.get("backward_transfer"),
        "min_share": (summary["memory"] or {}).get("min_share"),
        "detection": summary["detection"],
    }


def _segments(config: RunConfig, summary: dict[str, Any] | None) -> list[tuple[str, int]]:
    if summary is not None:
        return [(str(domain), int(steps)) for domain, steps in summary["segments"]]
    try:
        return [(segment.domain, segment.steps) for segment in plan(config).segments]
    except MetadriftError:
        return []
