"""Make docs/results.md and the figures of the results from measured comparisons.

python docs/make_results.py [COMPARISON ...]

Each named folder of a comparison (`metadrift compare --grid benchmarks/results/X.toml --name X`)
becomes a small file docs/results/X.json: accuracies, settings, dates, versions. Then the page is
rendered from docs/results/page.md.jinja, whose tables and numbers all come from these files. A
section whose comparison was not measured is left out. Without arguments the page is rendered again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import stdev
from typing import Annotated, Any

import jinja2
import tyro

from metadrift.errors import MetadriftError
from metadrift.evaluation.intervals import t_quantile
from metadrift.experiments.comparison import collect, saved_grid
from metadrift.experiments.table import difference, percent
from metadrift.storage.files import write_atomically, write_json
from metadrift.storage.reading import read_json

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def main(comparisons: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()) -> None:
    """Take in comparisons, then render the page."""
    for folder in comparisons:
        write_json(RESULTS / f"{folder.name}.json", digest(folder))
        print(RESULTS / f"{folder.name}.json")
    write_atomically(HERE / "results.md", render())
    print(HERE / "results.md")


def digest(folder: Path) -> dict[str, Any]:
    """What a page needs of a comparison: its rows, and what they were measured with."""
    grid = saved_grid(folder)
    found = collect(grid, folder)
    summaries = {
        cell.name: read_json(folder / cell.name / "summary.json")
        for cell in grid.cells()
        if (folder / cell.name / "summary.json").is_file()
    }
    rows = []
    for row in found["rows"]:
        runs = [
            summaries[cell.name]
            for cell in grid.cells()
            if (cell.variant, cell.learner, cell.shots)
            == (row["variant"], row["learner"], row["shots"])
            and cell.name in summaries
        ]
        row.pop("overhead", None)
        rows.append({**row, "by_seed": [run["accuracy"]["mean"] for run in runs]})
    days = sorted(str(run["timing"]["finished"])[:10] for run in summaries.values())
    return {
        "title": grid.title,
        "settings": grid.settings,
        "rows": rows,
        "missing": found["missing"],
        "segments": next(iter(summaries.values()))["segments"] if summaries else [],
        "days": [days[0], days[-1]] if days else [],
        "versions": _distinct(run["versions"] for run in summaries.values()),
        "precision": _distinct(run["settings"]["precision"] for run in summaries.values()),
    }


def render(folder: Path = RESULTS) -> str:
    """The page, from the files in a folder."""
    results = {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("*.json"))
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(RESULTS), undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    page = Page(results)
    names = ("has", "table", "domains", "shares", "facts", "accuracy", "gain", "power")
    environment.globals.update({name: getattr(page, name) for name in names})
    return environment.get_template("page.md.jinja").render()


class Page:
    """What the template can ask for. A name is a file of docs/results without its ending."""

    def __init__(self, results: dict[str, dict[str, Any]]) -> None:
        self._results = results

    def has(self, *names: str) -> bool:
        """True if these comparisons were measured whole."""
        return all(name in self._results and not self._results[name]["missing"] for name in names)

    def table(self, name: str, shots: int | None = None, learner: str | None = None) -> str:
        """One row per variant: accuracy, difference to its reference, forgetting, memory."""
        lines = []
        for row in self._rows(name, shots, learner):
            entry = row.get("difference")
            lines.append([
                row["variant"] + row["mark"],
                percent(row["accuracy"]["mean"], row["accuracy"]["ci95"]),
                difference(entry) + (f" to {entry['to']}" if entry else ""),
                percent(row["forgetting"]),
                percent(row["min_share"]),
                _changes(row["detection"]),
                f"{row['wall_s'] / 60:.0f}",
            ])  # fmt: skip
        head = ["variant", "accuracy %", "paired difference", "forgetting", "smallest share %"]
        return _table([*head, "changes found, false alarms", "minutes of training"], lines)

    def domains(self, name: str, shots: int | None = None, learner: str | None = None) -> str:
        """Accuracy by domain, one row per variant, below the steps of each domain."""
        rows = self._rows(name, shots, learner)
        names = list(rows[0]["per_domain"])
        steps: dict[str, int] = {}
        for domain, count in self._results[name]["segments"]:
            steps[domain] = steps.get(domain, 0) + count
        lines = [["steps", *(f"{steps[domain]:,}" for domain in names)]]
        lines += [
            [row["variant"] + row["mark"]]
            + [percent(row["per_domain"][domain]["mean"]) for domain in names]
            for row in rows
        ]
        return _table(["accuracy %", *names], lines)

    def shares(self, name: str, shots: int | None = None, learner: str | None = None) -> str:
        """The share of memory that each true domain has at the end."""
        rows = [row for row in self._rows(name, shots, learner) if row["shares"]]
        names = list(rows[0]["shares"])
        lines = [[row["variant"], *(percent(row["shares"][d]) for d in names)] for row in rows]
        return _table(["share of memory %", *names], lines)

    def facts(self, name: str) -> str:
        """One sentence: seeds, tasks, precision, versions, days."""
        found = self._results[name]
        seeds = sorted({len(row["seeds"]) for row in found["rows"]})
        count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        versions = "; ".join(
            f"metadrift {v['metadrift']} (code {v['code']}), torch {v['torch']}"
            for v in found["versions"]
        )
        first, last = found["days"]
        return (
            f"{count} seeds, {found['settings'].get('test_tasks', 750)} unseen tasks per domain, "
            f"± is the 95 % interval over seeds, {' and '.join(found['precision'])}, {versions}, "
            f"{first if first == last else f'{first} to {last}'}."
        )

    def accuracy(self, name: str, variant: str, shots: int | None = None) -> str:
        """The mean accuracy of a row, in percent."""
        return percent(self._row(name, variant, shots)["accuracy"]["mean"])

    def gain(self, name: str, variant: str, shots: int | None = None) -> str:
        """The paired difference of a row to its reference, with its interval."""
        return difference(self._row(name, variant, shots)["difference"])

    def power(self, *names: str) -> str:
        """How many seeds each difference needs until its interval leaves zero out."""
        lines = []
        for name in names:
            for row in self._results[name]["rows"] if name in self._results else ():
                entry = row.get("difference")
                if entry is None or len(row["seeds"]) < 2:
                    continue
                theirs = self._row(name, entry["to"], row["shots"], row["learner"])["by_seed"]
                pairs = zip(row["by_seed"], theirs, strict=True)
                gaps = [a - b for a, b in pairs]
                lines.append([
                    name, f"{row['learner']}, {row['shots']}-shot",
                    f"{row['variant']} to {entry['to']}", difference(entry),
                    str(len(gaps)), seeds_needed(gaps),
                ])  # fmt: skip
        return _table(["comparison", "learner", "difference", "points", "seeds", "needed"], lines)

    def _rows(self, name: str, shots: int | None, learner: str | None) -> list[dict[str, Any]]:
        return [
            row
            for row in self._results[name]["rows"]
            if shots in (None, row["shots"]) and learner in (None, row["learner"])
        ]

    def _row(
        self, name: str, variant: str, shots: int | None = None, learner: str | None = None
    ) -> dict[str, Any]:
        for row in self._rows(name, shots, learner):
            if row["variant"] == variant:
                return row
        raise MetadriftError(f"docs/results/{name}.json has no row {variant!r}")


def seeds_needed(gaps: Sequence[float], most: int = 100) -> str:
    """The least number of seeds whose 95 % interval leaves zero out, at this mean and spread.

    Examples
    --------
    >>> seeds_needed([0.02, 0.03, 0.025]), seeds_needed([0.01, -0.01, 0.002], most=50)
    ('3', 'over 50')
    """
    mean, sd = sum(gaps) / len(gaps), stdev(gaps)
    for n in range(2, most + 1):
        if t_quantile(n - 1) * sd / math.sqrt(n) < abs(mean):
            return str(n)
    return f"over {most}"


def _changes(found: dict[str, Any] | None) -> str:
    return (
        f"{found['detected']} of {found['true_changes']}, {found['false_alarms']}" if found else ""
    )


def _distinct(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except MetadriftError as error:
        raise SystemExit(f"make_results: {error}") from None
