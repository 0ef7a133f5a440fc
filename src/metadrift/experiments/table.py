"""The table of a comparison, on the terminal and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

COLUMNS = ["learner", "shots", "variant", "accuracy %", "to reference"]
COLUMNS += ["forgetting", "backward transfer", "memory min"]
PUBLISHED = "the paper's %"
VARIANCE = "variance PETS/uniform"


def columns_of(result: dict[str, Any]) -> list[str]:
    """The headings. A column without any value is left out."""
    columns = list(COLUMNS)
    if _any(result, "published"):
        columns.insert(4, PUBLISHED)
    if _any(result, "variance_ratio"):
        columns.append(VARIANCE)
    return columns


def rows_of(result: dict[str, Any]) -> list[list[str]]:
    """One row per variant, the cells as text, in the order of `columns_of`."""
    columns = columns_of(result)
    found = []
    for row in result["rows"]:
        ratio = row.get("variance_ratio")
        cells = {
            "learner": row["learner"],
            "shots": str(row["shots"]),
            "variant": row["variant"] + row["mark"],
            "accuracy %": percent(row["accuracy"]["mean"], row["accuracy"]["ci95"]),
            PUBLISHED: as_published(row.get("published")),
            "to reference": difference(row.get("difference")),
            "forgetting": percent(row["forgetting"]),
            "backward transfer": percent(row["backward_transfer"]),
            "memory min": percent(row["min_share"]),
            VARIANCE: "" if ratio is None else f"{ratio:.2f}",
        }
        found.append([cells[column] for column in columns])
    return found


def narrowed(
    columns: list[str], rows: list[list[str]]
) -> tuple[list[str], list[list[str]], list[str]]:
    """The table without empty columns and without learner and shots where all rows have the same.

    Those go into the third value, so that the table fits into a terminal of 80 columns.

    Examples
    --------
    >>> narrowed(["learner", "shots", "variant", "forgetting"], [["anil", "5", "mir", ""]])
    (['variant'], [['mir']], ['anil', '5-shot'])
    """
    if not rows:
        return columns, rows, []
    by_column = dict(zip(columns, zip(*rows, strict=True), strict=False))
    kept, same = [], []
    for column, cells in by_column.items():
        if column in ("learner", "shots") and len(set(cells)) == 1:
            same.append(cells[0] if column == "learner" else f"{cells[0]}-shot")
        elif any(cells):
            kept.append(column)
    return kept, [list(row) for row in zip(*(by_column[c] for c in kept), strict=True)], same


def notes_of(result: dict[str, Any]) -> list[str]:
    """What ± and the differences mean, if there are any, and the comparison's own notes."""
    notes = []
    if any(row["accuracy"]["seeds"] > 1 for row in result["rows"]):
        notes.append("± is half of Student's 95 % interval over seeds")
    pairs = [row["difference"] for row in result["rows"] if row.get("difference")]
    if pairs:
        to = "the reference of each variant" if result.get("against") else pairs[0]["to"]
        how = "of one seed"
        if any(pair["seeds"] > 1 for pair in pairs):
            how = "paired by seed, with Student's 95 % interval"
        notes.append(f"differences are to {to}, {how}")
    fresh = {row["variant"]: row["fresh"] for row in result["rows"]}
    precision = {row["variant"]: row["precision"] for row in result["rows"]}
    notes += notes_on("fresh tasks", fresh) + precision_notes(precision)
    return notes + list(result.get("notes", []))


def notes_on(what: str, variants: Mapping[str, str]) -> list[str]:
    """A note on a setting that should be the same in all variants, and whether it is.

    Examples
    --------
    >>> notes_on("fresh tasks", {"reservoir": "none", "joint": "none"})
    ['fresh tasks: none, in every variant']
    >>> notes_on("precision", {"reservoir": "float32", "quick": "bf16"})
    ['not the same in all variants, precision: float32 in reservoir; bf16 in quick']
    """
    names: dict[str, list[str]] = {}
    for variant, value in variants.items():
        names.setdefault(value, []).append(variant)
    if len(names) == 1:
        return [f"{what}: {value}, in every variant" for value in names]
    each = "; ".join(f"{value} in {', '.join(those)}" for value, those in names.items())
    return [f"not the same in all variants, {what}: {each}"] if names else []


def precision_notes(variants: Mapping[str, str]) -> list[str]:
    """The precision of the variants, unless all used float32.

    Examples
    --------
    >>> precision_notes({"reservoir": "float32", "joint": "float32"})
    []
    """
    return [] if set(variants.values()) <= {"float32"} else notes_on("precision", variants)


def markdown(result: dict[str, Any]) -> str:
    """The table and its notes, then accuracy and share of memory by domain."""
    parts = [markdown_table(columns_of(result), rows_of(result))]
    parts += [f"{note}\n" for note in notes_of(result)]
    names = list(result["rows"][0]["per_domain"]) if result["rows"] else []
    by_domain = [
        [row["learner"], str(row["shots"]), row["variant"] + row["mark"]]
        + [percent((row["per_domain"].get(name) or {}).get("mean")) for name in names]
        for row in result["rows"]
    ]
    parts.append(markdown_table(["learner", "shots", "variant", *names], by_domain))
    if _any(result, "shares"):
        parts += ["Share of memory, %:\n", markdown_table(*shares_table(result))]
    return "\n".join(parts)


def shares_table(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: the share of memory that each true domain has at the end."""
    rows = [row for row in result["rows"] if row.get("shares")]
    names = list(rows[0]["shares"]) if rows else []
    return ["learner", "shots", "variant", *names], [
        [row["learner"], str(row["shots"]), row["variant"] + row["mark"]]
        + [percent(row["shares"].get(name)) for name in names]
        for row in rows
    ]


def as_published(entry: dict[str, float] | None) -> str:
    """A published number with two decimals.

    Examples
    --------
    >>> as_published({"mean": 41.1, "half_width": 0.42}), as_published(None)
    ('41.10 ± 0.42', '')
    """
    return f"{entry['mean']:.2f} ± {entry['half_width']:.2f}" if entry else ""


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


def _any(result: dict[str, Any], key: str) -> bool:
    return any(row.get(key) is not None for row in result["rows"])


def markdown_table(columns: list[str], rows: list[list[str]]) -> str:
    """Headings and cells as Markdown, escaped so that a name stays within its cell.

    Examples
    --------
    >>> print(markdown_table(["variant", "%"], [["a|b", "50.0"]]), end="")
    | variant | % |
    | --- | --- |
    | a\\|b | 50.0 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    cells = [[" ".join(cell.split()) for cell in line] for line in lines]
    marks = str.maketrans({"|": "\\|", "<": "&lt;", ">": "&gt;", "&": "&amp;"})
    return "".join("| " + " | ".join(c.translate(marks) for c in row) + " |\n" for row in cells)
