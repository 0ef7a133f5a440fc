"""Accuracies with their intervals, as dots."""

from __future__ import annotations

from typing import Any

from metadrift.report.charts import Chart, Dot, DotChart
from metadrift.report.lines import variant_colour
from metadrift.report.subject import Group, Variant


def accuracy_dots(group: Group) -> list[Chart]:
    """Mean accuracy of each variant, and its paired difference to the reference."""
    known = [v for v in group.variants if v.row]
    rows = [(v.label, [accuracy_dot(v)]) for v in known]
    charts: list[Chart] = []
    if len(known) > 1:
        charts.append(
            DotChart("accuracy", "Mean accuracy of all domains", None, "accuracy %", rows)
        )
    gaps = [
        (v.label, [_gap(v, v.row["difference"])])
        for v in known
        if v.row and v.row.get("difference")
    ]
    if gaps:
        title = "Difference to the reference, paired by seed"
        charts.append(
            DotChart("difference", title, None, "points of accuracy", gaps, "points", zero=True)
        )
    return charts


def domain_dots(group: Group) -> list[Chart]:
    """Accuracy of each variant on each domain."""
    known = [v for v in group.variants if v.row]
    rows = [
        (name, [accuracy_dot(v, name) for v in known if v.row and name in v.row["per_domain"]])
        for name in group.domains
    ]
    rows = [row for row in rows if row[1]]
    if not rows:
        return []
    return [DotChart("domains", "Accuracy by domain", None, "accuracy %", rows)]


def accuracy_dot(variant: Variant, domain: str | None = None) -> Dot:
    """A variant's accuracy with its interval: over seeds, or over test tasks in a single run.

    While only one of several seeds is finished there is no interval, so the two kinds are never
    shown together.
    """
    assert variant.row is not None
    cell = variant.row["accuracy"] if domain is None else variant.row["per_domain"][domain]
    scores = [run.summary["accuracy"] for run in variant.runs if run.summary]
    each = [s if domain is None else s["per_domain"][domain] for s in scores]
    half = _finite(cell.get("ci95"))
    if half is None and len(variant.runs) == 1:
        half = _finite(each[0].get("ci95"))
    mean = float(cell["mean"])
    low, high = (None, None) if half is None else (mean - half, mean + half)
    values = [float(s["mean"]) for s in each] if len(each) > 1 else []
    return Dot(variant.label, mean, variant_colour(variant), variant.key, low, high, values)


def _gap(variant: Variant, difference: dict[str, Any]) -> Dot:
    low, high = (_finite(end) for end in difference["t95"])
    name = f"{variant.label} less {difference['to']}"
    mean = float(difference["mean"])
    return Dot(name, mean, variant_colour(variant), variant.key, low, high)


def _finite(value: float | None) -> float | None:
    return None if value is None or value != value else float(value)
