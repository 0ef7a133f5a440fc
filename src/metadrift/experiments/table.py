"""The table of a comparison, for people: on the terminal and as Markdown."""

from __future__ import annotations

import math
from typing import Any

COLUMNS = ["learner", "shots", "variant", "accuracy %", "to reference", "forgetting", "memory min"]


def rows_of(result: dict[str, Any]) -> list[list[str]]:
    """One row a variant, the cells as text."""
    return [
        [
            row["learner"],
            str(row["shots"]),
            row["variant"] + (" (oracle)" if row["oracle"] else ""),
            percent(row["accuracy"]["mean"], row["accuracy"]["ci95"]),
            difference(row.get("difference")),
            percent(row["forgetting"]),
            percent(row["min_share"]),
        ]
        for row in result["rows"]
    ]


def markdown(result: dict[str, Any]) -> str:
    """The table and, below it, the accuracy by domain."""
    first = _table(COLUMNS, rows_of(result))
    names = list(result["rows"][0]["per_domain"]) if result["rows"] else []
    by_domain = [
        [row["learner"], str(row["shots"]), row["variant"]]
        + [percent((row["per_domain"].get(name) or {}).get("mean")) for name in names]
        for row in result["rows"]
    ]
    return first + "\n" + _table(["learner", "shots", "variant", *names], by_domain)


def percent(value: float | None, half: float | None = None) -> str:
    """A share as text in percent, with its half width.

    Examples
    --------
    >>> percent(0.5123, 0.0123), percent(None), percent(0.5, float("nan"))
    ('51.2 ± 1.2', '', '50.0')
    """
    if value is None or math.isnan(value):
        return ""
    tail = "" if half is None or math.isnan(half) else f" ± {100 * half:.1f}"
    return f"{100 * value:.1f}{tail}"


def difference(entry: dict[str, Any] | None) -> str:
    """A paired difference in points with its t interval.

    Examples
    --------
    >>> difference({"mean": 0.021, "t95": [0.01, 0.032]})
    '+2.1 [+1.0, +3.2]'
    """
    if not entry:
        return ""
    low, high = entry["t95"]
    if low is None or math.isnan(low):
        return f"{100 * entry['mean']:+.1f}"
    return f"{100 * entry['mean']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
