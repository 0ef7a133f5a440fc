"""The rows of `make bench`: ratios, what was hoped for, and the line they must not cross.

floors.toml has a table for each part and an entry for each row that is judged:

    [step]
    "84 px: plain" = { least = 1.5, floor = 1.3 }        # hoped for: 1.5 or more; fails below 1.3
    "84 px: bare" = { most = 1.05, floor = 1.25 }        # hoped for: 1.05 or less; fails above 1.25

`quick = false` in an entry: not judged in a quick run, which is too short for it.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison. Without a ratio, `note` says why there is none."""

    name: str
    compared: str
    ratio: float | None
    note: str = ""


@dataclass(frozen=True)
class Floor:
    """What is hoped for (`aim`), and the line of regression (`floor`), on the same side."""

    aim: float
    floor: float
    at_least: bool
    quick: bool = True

    def holds(self, ratio: float, line: float) -> bool:
        return ratio >= line if self.at_least else ratio <= line

    def says(self, line: float) -> str:
        return f"{'at least' if self.at_least else 'at most'} {line:g}"


Floors = dict[str, dict[str, Floor]]


def read_floors(file: Path) -> Floors:
    floors: Floors = {}
    for part, rows in tomllib.loads(file.read_text()).items():
        floors[part] = {}
        for name, entry in rows.items():
            at_least = "least" in entry
            aim = float(entry["least" if at_least else "most"])
            line, quick = float(entry["floor"]), bool(entry.get("quick", True))
            floors[part][name] = Floor(aim, line, at_least, quick)
    return floors


def judge(part: str, rows: list[Row], floors: Floors, quick: bool) -> list[str]:
    """A sentence for every row that is on the wrong side of its floor, or missing."""
    found = {row.name: row for row in rows}
    wrong = []
    for name, floor in floors.get(part, {}).items():
        row = found.get(name)
        if (quick and not floor.quick) or (row and row.ratio is None):
            continue
        if row is None:
            wrong.append(f"{part}, {name}: it has a floor, but no row of that name was measured")
        elif math.isnan(row.ratio) or not floor.holds(row.ratio, floor.floor):
            says = floor.says(floor.floor)
            wrong.append(f"{part}, {name}: the ratio is {row.ratio:.3g}, its floor is {says}")
    return wrong


def cells(part: str, row: Row, floors: Floors) -> list[str]:
    """Name, what is compared, ratio, aim, floor, note."""
    floor = floors.get(part, {}).get(row.name)
    ratio = "-" if row.ratio is None else f"{row.ratio:.3g}"
    if floor and row.ratio is not None and not floor.holds(row.ratio, floor.aim):
        ratio += " (short)" if floor.holds(row.ratio, floor.floor) else " (FAILS)"
    lines = ["", ""] if floor is None else [floor.says(floor.aim), floor.says(floor.floor)]
    return [row.name, row.compared, ratio, *lines, row.note]


HEADS = ["row", "compared", "ratio", "aim", "floor", "note"]


def markdown(found: dict[str, Any], floors: Floors) -> str:
    """A table for each part of a result as bench.json has it."""
    text = []
    for part, result in found["parts"].items():
        quick = ", quick" if result["quick"] else ""
        text += [f"**{part}** ({result['date']}, {result['seconds']:.0f} s{quick})", ""]
        text += ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
        rows = [cells(part, Row(**row), floors) for row in result["rows"]]
        text += ["| " + " | ".join(c.replace("|", "/") for c in row) + " |" for row in rows]
        text.append("")
    return "\n".join(text)


ANSWERS = [  # what a user asks first: the question, and the part and row that answer it
    ("How many times as fast is a training step in bf16, 28 px", "step", "28 px: bf16"),
    ("The same at 84 px", "step", "84 px: bf16"),
    ("How many times as fast as a plain step, 28 px", "step", "28 px: plain"),
    ("A whole step, in times of its network alone, 28 px", "step", "28 px: bare"),
    ("Share of detection, memory and replay in a step, 28 px", "step", "28 px: bookkeeping"),
    ("How many times as fast is evaluation in bf16, 28 px", "evaluation", "28 px: bf16"),
    ("Peak memory at the paper's size, 5-shot, float32", "memory", "5-shot: whole run"),
    ("The same in bf16", "memory", "5-shot: whole run, bf16"),
    ("ANIL in bf16, times as fast as `higher`", "learners", "anil: higher, ours in bf16"),
    ("N runs on N cores, as a share of N times one run", "throughput", "compare"),
]


def answers(found: dict[str, Any], floors: Floors) -> str:
    """The first table of the page, from a result as bench.json has it."""
    lines = ["| question | answer | aim | row |", "|---|---|---|---|"]
    for question, part, name in ANSWERS:
        rows = found["parts"].get(part, {"rows": []})["rows"]
        row = next((Row(**each) for each in rows if each["name"] == name), None)
        said, aim = "not measured yet", ""
        if row is not None:
            _, _, said, aim, _, note = cells(part, row, floors)
            said = f"{said} ({note})" if note else said
        lines.append(f"| {question} | {said} | {aim} | {part}, {name} |")
    return "\n".join(lines)


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]
