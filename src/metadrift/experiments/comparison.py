"""The result of a comparison: one row per variant, with its paired difference to the reference."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from metadrift.errors import MetadriftError
from metadrift.evaluation.intervals import over_seeds, paired_difference
from metadrift.examples import kind_of_table
from metadrift.experiments.grid import Cell, Grid
from metadrift.runs.build import plan
from metadrift.runs.config import mark_of
from metadrift.runs.folder import is_unused, refuse_other_result
from metadrift.runs.resolve import FREE, refuse_difference, resolved
from metadrift.storage.files import write_json
from metadrift.storage.reading import read_json
from metadrift.storage.tables import from_table


def gather(grid: Grid, folder: Path) -> dict[str, Any]:
    """Read the finished runs and write `comparison.json`."""
    result = collect(grid, folder)
    write_json(folder / "comparison.json", result)
    return result


def collect(grid: Grid, folder: Path) -> dict[str, Any]:
    """The result of the runs that are finished by now, with the names of the missing ones."""
    summaries: dict[tuple[str, str, int, int], dict[str, Any]] = {}
    missing = []
    for cell in grid.cells():
        file = folder / cell.name / "summary.json"
        if file.is_file():
            key = (cell.variant, cell.learner, cell.shots, cell.seed)
            summaries[key] = _result_of(cell, file)
        else:
            missing.append(cell.name)
    rows = [
        _row(grid, summaries, variant, learner, shots)
        for shots in grid.shots
        for learner in grid.learners
        for variant in grid.variants
        if any(key[:3] == (variant, learner, shots) for key in summaries)
    ]
    return {**grid.to_json(), "rows": rows, "missing": missing}


def _result_of(cell: Cell, file: Path) -> dict[str, Any]:
    """A run's summary; refused if the run had other settings than its cell."""
    summary = read_json(file)
    if "settings" in summary:  # earlier versions did not record them
        before, now = {"precision": summary.get("precision")}, {"precision": cell.config.precision}
        way_out = f"choose another --name, or remove {file.parent}"
        refuse_difference(str(file.parent), before, now, way_out)
        try:
            benchmark = plan(cell.config)
        except MetadriftError:  # the benchmark's file is gone: nothing to compare with
            return summary
        example = kind_of_table(summary["example"]) if "example" in summary else None
        now_resolved = resolved(cell.config, benchmark, example=example)
        refuse_other_result(file.parent, now_resolved, benchmark)
    return summary


def refuse_other_grid(grid: Grid, folder: Path) -> None:
    """Raise when a folder holds runs of a comparison with other settings."""
    if not (folder / "grid.json").is_file():
        return
    saved = saved_grid(folder)
    if all(is_unused(folder / cell.name) for cell in saved.cells()):
        return
    before, now = (_flat(one.settings) for one in (saved, grid))
    way_out = f"choose another --name, or remove {folder}"
    refuse_difference(str(folder), before, now, way_out)


def _flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings by their full names, without those that no result depends on."""
    rows = [(k, v) if isinstance(v, dict) else ("", {k: v}) for k, v in settings.items()]
    flat = {f"{group}.{k}".lstrip("."): v for group, table in rows for k, v in table.items()}
    return {name: value for name, value in flat.items() if name not in FREE}


def saved_grid(folder: Path) -> Grid:
    """What the comparison in a folder compares."""
    file = folder / "grid.json"
    return from_table(Grid, read_json(file), str(file))


def _row(
    grid: Grid,
    summaries: dict[tuple[str, str, int, int], dict[str, Any]],
    variant: str,
    learner: str,
    shots: int,
) -> dict[str, Any]:
    def runs(of: str) -> dict[int, dict[str, Any]]:
        keys = ((of, learner, shots, seed) for seed in grid.seeds)
        return {key[3]: summaries[key] for key in keys if key in summaries}

    ours = runs(variant)
    accuracy = {seed: float(run["accuracy"]["mean"]) for seed, run in ours.items()}
    first = next(iter(ours.values()))
    domains = {
        name: asdict(
            over_seeds([run["accuracy"]["per_domain"][name]["mean"] for run in ours.values()])
        )
        for name in first["accuracy"]["per_domain"]
    }
    row: dict[str, Any] = {
        "variant": variant,
        "learner": learner,
        "shots": shots,
        "mark": mark_of(first["method"], first["oracle"]),
        "fresh": first.get("fresh", "not recorded"),
        "precision": first.get("precision", "not recorded"),
        "seeds": list(ours),
        "accuracy": asdict(over_seeds(list(accuracy.values()))),
        "per_domain": domains,
        "before_rehearsal": _mean(
            [(run.get("before_rehearsal") or {}).get("mean") for run in ours.values()]
        ),
        "forgetting": _mean([run["forgetting"] for run in ours.values()]),
        "backward_transfer": _mean([run.get("backward_transfer") for run in ours.values()]),
        "min_share": _mean([(run["memory"] or {}).get("min_share") for run in ours.values()]),
        "shares": _shares(
            [(run["memory"] or {}).get("shares_by_true_domain") for run in ours.values()]
        ),
        "variance_ratio": _mean([run.get("variance_ratio") for run in ours.values()]),
        "detection": _detection([run["detection"] for run in ours.values()]),
        "wall_s": _mean([run["timing"]["wall_s"] for run in ours.values()]),
        "overhead": [run["timing"].get("overhead") for run in ours.values()],
    }
    for published in grid.published:
        if (published.variant, published.learner, published.shots) == (variant, learner, shots):
            row["published"] = {"mean": published.mean, "half_width": published.half_width}
    reference = grid.reference_of(variant)
    if reference:
        theirs = {s: float(r["accuracy"]["mean"]) for s, r in runs(reference).items()}
        common = [seed for seed in accuracy if seed in theirs]
        if common:
            pair = [accuracy[s] for s in common], [theirs[s] for s in common]
            row["difference"] = {"to": reference, **asdict(paired_difference(*pair))}
    return row


def _detection(found: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [entry for entry in found if entry]
    if not known:
        return None
    counts = ("true_changes", "detected", "false_alarms", "returns", "recognised", "wrong_labels")
    total = {k: sum(e.get(k, 0) for e in known) for k in counts}
    means = ("mean_delay", "latent_domains", "true_domains")
    return total | {name: _mean([entry.get(name) for entry in known]) for name in means}


def _shares(found: list[dict[str, float] | None]) -> dict[str, float] | None:
    """Each true domain's share of memory, mean over the seeds."""
    known = [entry for entry in found if entry]
    return {name: sum(e[name] for e in known) / len(known) for name in known[0]} if known else None


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
