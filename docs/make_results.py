"""Make docs/results.md, docs/choose.md and their figures from measured comparisons.

python docs/make_results.py [COMPARISON ...]

Each named folder of a comparison (`GRID=X DATA=FOLDER_OF_PACKS make measure`) becomes a small file
docs/results/X.json: accuracies, settings, dates, versions. Then each page is rendered from its
template in docs/results, whose tables and numbers all come from these files. A section whose
comparison was not measured is left out. The figures and README's three numbers come from the same
files. Without arguments all of this is made again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import stdev
from typing import Annotated, Any

import jinja2
import tyro

from metadrift.errors import MetadriftError
from metadrift.evaluation.intervals import t_quantile
from metadrift.experiments.comparison import collect, saved_grid
from metadrift.experiments.table import difference, percent
from metadrift.report.figures import METHOD_COLOURS
from metadrift.storage.files import write_atomically, write_json
from metadrift.storage.reading import read_json

HERE = Path(__file__).parent
RESULTS = HERE / "results"
README = HERE.parent / "README.md"
BEGIN, END = "<!-- numbers -->", "<!-- end of numbers -->"
IMAGES = HERE / "images"
PAGES = {"results.md": "page.md.jinja", "choose.md": "choose.md.jinja"}
# The comparisons of EQUAL_ROWS on equal terms, the longest first, for figure and README.
HEADLINES = {
    "full-5shot": "Six real domains at the paper's full length",
    "equal": "Six real domains at three tenths of the paper's length",
}
METHODS = METHOD_COLOURS.split()
EQUAL_ROWS = ("reservoir", "m2d3-pets", "joint, as many trained tasks")
# Comparisons of ours with a reservoir under changed conditions, and what changes.
GAINS = {
    "imbalance": "last domain's steps to another's",
    "memory": "size of the memory",
    "domains": "number of domains",
    "shots": "shots",
}


def main(comparisons: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()) -> None:
    """Take in comparisons, then render the page."""
    for folder in comparisons:
        write_json(RESULTS / f"{folder.name}.json", digest(folder))
        print(RESULTS / f"{folder.name}.json")
    page = Page(read_results())
    for name, template in PAGES.items():
        write_atomically(HERE / name, render(page, template))
        print(HERE / name)
    for name in page.measured(*GAINS):
        draw_gains(page, name, IMAGES / f"gain-{name}.png")
    if page.headline():
        draw(page, IMAGES / "results.png")
        write_atomically(README, with_numbers(README.read_text(encoding="utf-8"), page))


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


def read_results(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Every measured comparison by its name."""
    return {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.glob("*.json"))
    }


def render(page: Page, template: str = PAGES["results.md"]) -> str:
    """A page of the documentation, from its template."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(RESULTS), undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    names = "has measured headline table domains shares facts accuracy before gain gains "
    names += "variance power"
    environment.globals.update({name: getattr(page, name) for name in names.split()})
    return environment.get_template(template).render()


@contextmanager
def figure_in(file: Path, size: tuple[float, float]) -> Iterator[Any]:
    """Axes to draw on, which are then written to the file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=size, layout="constrained")
    yield axes
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150, metadata={"Software": None})
    plt.close(figure)
    print(file)


def draw(page: Page, file: Path) -> None:
    """Accuracy by domain as bars, for the methods on equal terms."""
    name = page.headline()
    rows = [page.row(name, variant) for variant in EQUAL_ROWS]
    steps = page.steps(name)
    domains = [*rows[0]["per_domain"]]
    ticks = [f"{domain}\n{steps[domain]:,} steps" for domain in domains]
    width = 0.8 / len(rows)
    colours = (METHODS[1], METHODS[2], METHODS[5])  # as in the other pictures; 0 is sequential
    with figure_in(file, (9, 3.6)) as axes:
        for i, (row, colour) in enumerate(zip(rows, colours, strict=True)):
            places = [d + (i - (len(rows) - 1) / 2) * width for d in range(len(domains))]
            heights = [100 * row["per_domain"][d]["mean"] for d in domains]
            bars = axes.bar(places, heights, 0.92 * width, color=colour, label=row["variant"])
            axes.bar_label(bars, fmt="%.0f", fontsize=8, padding=1)
        axes.axhline(20, color="#555555", linewidth=0.8, linestyle=":")
        axes.annotate("guessing", (-0.98, 20.8), fontsize=8)
        axes.set_xlim(-1, len(domains) - 0.4)
        axes.set_xticks(range(len(domains)), ticks, fontsize=9)
        axes.set_ylabel("accuracy on unseen classes, %")
        axes.set_ylim(0, 112)
        axes.legend(frameon=False, ncols=len(rows), loc="upper center", fontsize=9)


def draw_gains(page: Page, name: str, file: Path) -> None:
    """What m2d3-pets gains over an equal reservoir, by what changes, with the 95 % intervals."""
    found = page.gains_of(name)
    with figure_in(file, (5, 2.8)) as axes:
        for i, (_, _, entry) in enumerate(found):
            low, high = (100 * end for end in entry["t95"])
            axes.vlines(i, low, high, color=METHODS[2], linewidth=2)
            axes.plot(i, 100 * entry["mean"], "o", color=METHODS[2])
        axes.axhline(0, color="#555555", linewidth=0.8, linestyle=":")
        axes.set_xticks(range(len(found)), [label for label, _, _ in found])
        axes.set_xlim(-0.5, len(found) - 0.5)
        axes.set_xlabel(GAINS[name])
        axes.set_ylabel("points over a reservoir")


def numbers(page: Page) -> str:
    """README's three numbers, from the longest comparison on equal terms."""
    reservoir, ours, joint = EQUAL_ROWS
    equal = page.headline()
    accuracy = {name: page.accuracy(equal, name) for name in EQUAL_ROWS}
    share = {name: percent(page.row(equal, name)["min_share"]) for name in (ours, reservoir)}
    found, seeds = page.row(equal, ours)["detection"], len(page.row(equal, ours)["seeds"])
    return (
        f"{HEADLINES[equal]}, 5-way 5-shot, unseen classes:\n\n"
        f"- **{page.gain(equal, ours)}** points: `m2d3-pets` over a reservoir of the same size "
        f"with the same fresh\n  tasks and the same rehearsal ({accuracy[ours]} % and "
        f"{accuracy[reservoir]} %), paired over {seeds} seeds with the 95 %\n  interval. Joint "
        "training on as many tasks, which sees all domains all the time, has "
        f"{accuracy[joint]} %.\n"
        f"- **{share[ours]} %** of the memory is the smallest share of a domain at the end; in the "
        f"reservoir it is {share[reservoir]} %.\n"
        f"- **{found['detected']} of {found['true_changes']}** changes of domain were noticed, "
        f"with {found['false_alarms']} false alarms."
    )


def with_numbers(readme: str, page: Page) -> str:
    """README with the three numbers between their marks."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{numbers(page)}\n{END}{after}"


class Page:
    """What the template can ask for. A name is a file of docs/results without its ending."""

    def __init__(self, results: dict[str, dict[str, Any]]) -> None:
        self._results = results

    def has(self, *names: str) -> bool:
        """True if these comparisons were measured whole."""
        return all(name in self._results and not self._results[name]["missing"] for name in names)

    def measured(self, *names: str) -> list[str]:
        """Those of the comparisons that were measured whole."""
        return [name for name in names if self.has(name)]

    def headline(self) -> str:
        """The longest comparison on equal terms that was measured whole, or nothing."""
        return next(iter(self.measured(*HEADLINES)), "")

    def table(self, name: str, shots: int | None = None, learner: str | None = None) -> str:
        """One row per variant: accuracy, difference to its reference, forgetting, memory.

        A rehearsal has one more column: the accuracy before it.
        """
        lines, rows = [], self._rows(name, shots, learner)
        rehearsed = any(row.get("before_rehearsal") for row in rows)
        for row in rows:
            entry = row.get("difference")
            lines.append([
                row["variant"] + row["mark"],
                percent(row["accuracy"]["mean"], row["accuracy"]["ci95"]),
                *([percent(row.get("before_rehearsal"))] if rehearsed else []),
                difference(entry) + (f" to {entry['to']}" if entry else ""),
                percent(row["forgetting"]),
                percent(row["min_share"]),
                _changes(row["detection"]),
                f"{row['wall_s'] / 60:.0f}",
            ])  # fmt: skip
        head = ["variant", "accuracy %", *(["before the rehearsal"] if rehearsed else [])]
        head += ["paired difference", "forgetting", "smallest share %"]
        return _table([*head, "changes found, false alarms", "minutes of training"], lines)

    def domains(self, name: str, shots: int | None = None, learner: str | None = None) -> str:
        """Accuracy by domain, one row per variant, below the steps of each domain."""
        rows = self._rows(name, shots, learner)
        names, steps = list(rows[0]["per_domain"]), self.steps(name)
        lines = [["steps", *(f"{steps[domain]:,}" for domain in names)]]
        lines += [
            [row["variant"] + row["mark"]]
            + [percent(row["per_domain"][domain]["mean"]) for domain in names]
            for row in rows
        ]
        return _table(["accuracy %", *names], lines)

    def steps(self, name: str) -> dict[str, int]:
        """The steps of each domain."""
        found: dict[str, int] = {}
        for domain, count in self._results[name]["segments"]:
            found[domain] = found.get(domain, 0) + count
        return found

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
        return percent(self.row(name, variant, shots)["accuracy"]["mean"])

    def before(self, name: str, variant: str, shots: int | None = None) -> str:
        """The mean accuracy of a row before its rehearsal, in percent."""
        return percent(self.row(name, variant, shots)["before_rehearsal"])

    def gain(
        self, name: str, variant: str, shots: int | None = None, learner: str | None = None
    ) -> str:
        """The paired difference of a row to its reference, with its interval."""
        return difference(self.row(name, variant, shots, learner)["difference"])

    def gains(self, name: str) -> str:
        """One row per condition: what ours and the reservoir have there, and the difference."""
        lines = [
            [label, percent(row["accuracy"]["mean"] - entry["mean"]),
             percent(row["accuracy"]["mean"]), difference(entry)]
            for label, row, entry in self.gains_of(name)
        ]  # fmt: skip
        return _table([GAINS[name], "reservoir %", "m2d3-pets %", "paired difference"], lines)

    def gains_of(self, name: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
        """The conditions of a comparison, each with the row of ours and its difference."""
        return [
            (row["variant"].partition(",")[0] if "," in row["variant"] else str(row["shots"]),
             row, row["difference"])
            for row in self._results[name]["rows"]
            if row.get("difference")
        ]  # fmt: skip

    def variance(self, name: str, variant: str, shots: int) -> str:
        """The variance of PETS's replay gradient over that of uniform replay, mean over seeds."""
        return f"{self.row(name, variant, shots)['variance_ratio']:.2f}"

    def power(self, *names: str) -> str:
        """How many seeds each difference needs until its interval leaves zero out."""
        lines = []
        for name in names:
            for row in self._results[name]["rows"]:
                entry = row.get("difference")
                if entry is None or len(row["seeds"]) < 2:
                    continue
                theirs = self.row(name, entry["to"], row["shots"], row["learner"])["by_seed"]
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

    def row(
        self, name: str, variant: str, shots: int | None = None, learner: str | None = None
    ) -> dict[str, Any]:
        """One row of a comparison."""
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
