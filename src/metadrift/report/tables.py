"""The tables of a group, also as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from metadrift.experiments.table import (
    PUBLISHED,
    as_published,
    difference,
    markdown_table,
    percent,
)
from metadrift.report.scores import accuracy_dot
from metadrift.report.subject import Group, Variant


@dataclass(frozen=True)
class Cell:
    """A text to show, and the number behind it with its interval."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Table:
    """One row per variant; the first column is its name."""

    slug: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    variants: list[int]
    """The variant of each row, by which the page hides it."""


def tables_of(group: Group) -> list[Table]:
    """The headline, accuracy by domain, and the budget of time and memory."""
    known = [variant for variant in group.variants if variant.row]
    if not known:
        return []
    keys = [variant.key for variant in known]
    head = [_headline(variant) for variant in known]
    domains = [
        [Cell(v.label), *(_domain(v, name) for name in group.domains), _accuracy(v)] for v in known
    ]
    budget = [_budget(variant) for variant in known]
    return [
        Table("headline", "Accuracy, difference, memory, detection", *_aligned(head), keys),
        Table("by-domain", "Accuracy %", ["variant", *group.domains, "mean"], domains, keys),
        Table("budget", "Time and memory, mean of a run", *_aligned(budget), keys),
    ]


def markdown(table: Table) -> str:
    """The table in Markdown."""
    return markdown_table(table.columns, [[cell.text for cell in row] for row in table.rows])


def latex(table: Table) -> str:
    """The table in LaTeX, with booktabs."""
    lines = [" & ".join(_tex(c.text) for c in row) + r" \\" for row in table.rows]
    head = " & ".join(_tex(name) for name in table.columns) + r" \\"
    begin = r"\begin{tabular}{l" + "r" * (len(table.columns) - 1) + "}"
    parts = [begin, r"\toprule", head, r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(parts) + "\n"


def comma_separated(table: Table) -> str:
    """Numbers as numbers: accuracy and shares from 0 to 1, and the ends of the intervals."""
    out = io.StringIO()
    wide = [any(row[i].low is not None for row in table.rows) for i in range(len(table.columns))]
    names = [
        [name, f"{name} low", f"{name} high"] if w else [name]
        for name, w in zip(table.columns, wide, strict=True)
    ]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for group in names for name in group])
    for row in table.rows:
        cells: list[Any] = []
        for cell, w in zip(row, wide, strict=True):
            plain = cell.text if cell.value is None else cell.value
            cells += [plain, cell.low, cell.high] if w else [plain]
        writer.writerow(cells)
    return out.getvalue()


def _aligned(rows: list[dict[str, Cell]]) -> tuple[list[str], list[list[Cell]]]:
    """Columns and rows. The longest row sets the order. Empty columns are left out."""
    fullest = max(rows, key=len)
    names = list(dict.fromkeys([*fullest, *(name for row in rows for name in row)]))
    names = [name for name in names if any(row.get(name, Cell("")).text for row in rows)]
    return names, [[row.get(name, Cell("")) for name in names] for row in rows]


def _headline(variant: Variant) -> dict[str, Cell]:
    row = variant.row
    assert row is not None
    seeds = len(row["seeds"])
    cells = {"variant": Cell(variant.label), "seeds": Cell(str(seeds), seeds)}
    cells["accuracy %"] = _accuracy(variant)
    printed = row.get("published")
    cells[PUBLISHED] = Cell(as_published(printed), printed and printed["mean"] / 100)
    gap = row.get("difference")
    if gap:
        low, high = gap["t95"]
        cells[f"to {gap['to']}"] = Cell(difference(gap), gap["mean"], low, high)
    domains = [_domain(variant, name) for name in row["per_domain"]]
    worst = min(domains, key=lambda cell: cell.value or 0.0)
    cells["worst domain %"] = Cell(percent(worst.value), worst.value)
    cells["forgetting, points"] = _share(row["forgetting"])
    cells["backward transfer, points"] = _share(row["backward_transfer"])
    cells["smallest share of memory %"] = _share(row["min_share"])
    found = row.get("detection")
    if found:
        share = f"{found['detected']} of {found['true_changes']}"
        cells["changes found"] = Cell(share, found["detected"])
        cells["false alarms"] = Cell(str(found["false_alarms"]), found["false_alarms"])
        if found.get("latent_domains"):
            text = f"{found['latent_domains']:.3g} of {found['true_domains']:g}"
            cells["latent domains at the end"] = Cell(text, found["latent_domains"])
        if found.get("returns"):
            share = f"{found['recognised']} of {found['returns']}"
            cells["returns recognised"] = Cell(share, found["recognised"])
        if found["mean_delay"] is not None:
            cells["delay, steps"] = Cell(f"{found['mean_delay']:.0f}", found["mean_delay"])
    return cells


def _accuracy(variant: Variant, domain: str | None = None) -> Cell:
    dot = accuracy_dot(variant, domain)
    half = None if dot.high is None else dot.high - dot.value
    return Cell(percent(dot.value, half), dot.value, dot.low, dot.high)


def _domain(variant: Variant, name: str) -> Cell:
    known = variant.row and name in variant.row["per_domain"]
    return _accuracy(variant, name) if known else Cell("")


def _share(value: float | None) -> Cell:
    return Cell(percent(value), value)


def _budget(variant: Variant) -> dict[str, Cell]:
    done = [run.summary for run in variant.runs if run.summary]
    timing = [summary["timing"] for summary in done]
    cells = {"variant": Cell(variant.label)}
    wall = fmean(t["wall_s"] for t in timing)
    cells["training s"] = Cell(f"{wall:,.0f}", wall)
    rates = [t["steps_per_s"] for t in timing if t.get("steps_per_s")]
    if rates:
        cells["steps/s"] = Cell(f"{fmean(rates):.2f}", fmean(rates))
    shares = [t["overhead"] for t in timing if t.get("overhead")]
    for name in dict.fromkeys(key for share in shares for key in share):
        mean = fmean(share.get(name, 0.0) for share in shares)
        cells[f"{name} % of time"] = _share(mean)
    for title, sizes in (
        ("task memory MB", [(s.get("memory") or {}).get("bytes") for s in done]),
        ("peak process MB", [t.get("peak_rss_bytes") for t in timing]),
    ):
        known = [size for size in sizes if size]
        if known:
            cells[title] = Cell(f"{fmean(known) / 1e6:,.1f}", fmean(known) / 1e6)
    return cells


def _tex(text: str) -> str:
    special: dict[str, str | int | None] = {c: "\\" + c for c in "&%$#_{}"}
    special |= {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "±": r"$\pm$",
    }
    return " ".join(text.split()).translate(str.maketrans(special))
