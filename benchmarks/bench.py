"""All of metadrift's speed and size in one table of ratios, each measured side by side.

    python benchmarks/bench.py
    python benchmarks/bench.py --only step memory --quick

The parts run one after the other on an otherwise idle machine; contenders take turns within a
part. .bench/bench.json and .bench/bench.md keep the newest result of every part. It ends with
code 1 when a ratio is on the wrong side of its floor in benchmarks/floors.toml.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import platform
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from bench_table import HEADS, Floors, Row, answers, as_json, cells, judge, markdown, read_floors

HERE = Path(__file__).resolve().parent
PARTS = {  # part: the module whose `rows(quick)` gives its rows
    "step": "bench_step",
    "methods": "bench_methods",
    "flatness": "bench_flatness",
    "memory": "bench_memory",
    "evaluation": "bench_evaluation",
    "throughput": "bench_throughput",
    "startup": "bench_startup",
    "growth": "bench_growth",
    "learners": "learners",
    "detection": "bench_detection",
    "sampling": "sampling",
}


@dataclass(frozen=True)
class Arguments:
    only: tuple[str, ...] = ()  # these parts; without it all
    quick: bool = False  # fewer rounds and smaller sizes
    docs: Path | None = None  # put the newest results into this page, between its marks
    out: Path = HERE.parent / ".bench"  # where bench.json and bench.md go
    floors: Path = HERE / "floors.toml"  # aims and floors


def main(arguments: Arguments) -> int:
    a = arguments
    for part in a.only:
        if part not in PARTS:
            raise SystemExit(f"bench: there is no part {part!r}; there are {', '.join(PARTS)}")
    floors, console = read_floors(a.floors), Console()
    a.out.mkdir(parents=True, exist_ok=True)
    file = a.out / "bench.json"
    found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"parts": {}}
    found["machine"] = machine()
    wrong = []
    for part in a.only or PARTS:
        console.print(f"[bold]{part}[/] ...")
        began = time.perf_counter()
        rows: list[Row] = importlib.import_module(PARTS[part]).rows(a.quick)
        seconds = time.perf_counter() - began
        found["parts"][part] = {
            "date": datetime.date.today().isoformat(),
            "seconds": round(seconds, 1),
            "quick": a.quick,
            "rows": as_json(rows),
        }
        found["parts"] = {p: found["parts"][p] for p in PARTS if p in found["parts"]}
        file.write_text(json.dumps(found, indent=1) + "\n")
        (a.out / "bench.md").write_text(page(found, floors))
        wrong += judge(part, rows, floors, a.quick)
    console.print(table(found, a.only or tuple(PARTS), floors))
    if a.docs:
        paste(a.docs, "answers", answers(found, floors))
        paste(a.docs, "bench", page(found, floors) + picture(a.docs, a.out / "growth.png"))
    if wrong:
        console.print("bench: " + "; ".join(wrong) + f" ({a.floors.name})", style="red")
    return 1 if wrong else 0


def table(found: dict[str, Any], parts: tuple[str, ...], floors: Floors) -> Table:
    shown = Table("part", *HEADS)
    for part in parts:
        for row in found["parts"][part]["rows"]:
            shown.add_row(part, *cells(part, Row(**row), floors))
        shown.add_section()
    return shown


def page(found: dict[str, Any], floors: Floors) -> str:
    words = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    return f"Measured on: {words}.\n\n{markdown(found, floors)}"


def paste(docs: Path, name: str, text: str) -> None:
    """Put the text between the marks of this name on the page."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = docs.read_text().split(begin)
    _, after = rest.split(end)
    docs.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")


def picture(docs: Path, file: Path) -> str:
    """The picture, copied beside the page, as Markdown; nothing where there is none."""
    if not file.exists():
        return ""
    (docs.parent / "images").mkdir(exist_ok=True)
    shutil.copy(file, docs.parent / "images" / file.name)
    return f"\n![How the cost of a step grows](images/{file.name})\n"


def machine() -> dict[str, str]:
    import numpy
    import torch

    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "CPU": names[0] if names else platform.processor(),
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


if __name__ == "__main__":
    raise SystemExit(main(tyro.cli(Arguments, description=__doc__)))
