"""The report as one HTML page. It loads nothing from elsewhere and escapes every name."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from metadrift import __version__
from metadrift.experiments.table import notes_on, precision_notes
from metadrift.report.examples import Example
from metadrift.report.lines import domain_colours, variant_colour
from metadrift.report.scores import accuracy_dots
from metadrift.report.sections import sections_of
from metadrift.report.subject import Group, RunData, Subject
from metadrift.report.svg import draw
from metadrift.report.tables import tables_of
from metadrift.runs.config import describe_fresh, to_toml
from metadrift.storage.files import write_atomically

WIDE = ("statistic-", "stream", "domains")
"""Prefixes of the names of charts that are as wide as the page."""


@dataclass(frozen=True)
class Pictures:
    """Test tasks with the predictions of one variant's learner."""

    of: str
    examples: list[Example]


def write_page(subject: Subject, file: Path, pictures: list[Pictures] | None = None) -> None:
    """Render the page and write it atomically."""
    # A folder's name may hold bytes that are no text.
    write_atomically(file, render(subject, pictures or []).encode("utf-8", "replace"))


def render(subject: Subject, pictures: list[Pictures]) -> str:
    """The page as text."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    script = _template("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.from_string(_template("page.html")).render(
        subject=subject,
        single=subject.grid is None,
        groups=[_group(group) for group in subject.groups],
        chips=[
            {"key": v.key, "label": v.label, "colour": variant_colour(v), "oracle": v.oracle}
            for v in subject.groups[0].variants
        ],
        unfinished=[_progress(run) for run in subject.runs if run.summary is None],
        pictures=pictures,
        notes=_notes(subject),
        configuration=_configuration(subject),
        made_with=_versions(subject),
        draw=draw,
        is_wide=lambda chart: chart.slug.startswith(WIDE),
        # Only this script may run, even if a name holds another one.
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'",
        script=Markup(script),  # our own files, not data
        style=Markup(_template("page.css")),
    )


def _group(group: Group) -> dict[str, Any]:
    tables = {table.slug: table for table in tables_of(group)}
    return {
        "title": group.title,
        "id": f"{group.learner}-{group.shots}",
        "headline": tables.get("headline"),
        "by_domain": tables.get("by-domain"),
        "budget": tables.get("budget"),
        "dots": accuracy_dots(group),
        "sections": sections_of(group),
        "domains": list(domain_colours(group).items()),
        "one_seed": all(len(v.runs) == 1 for v in group.variants),
    }


def _progress(run: RunData) -> dict[str, Any]:
    last = run.metrics[-1] if run.metrics else {}
    return {
        "name": run.folder.name,
        "step": run.step,
        "steps": run.steps,
        "share": run.step / run.steps if run.steps else 0.0,
        "accuracy": last.get("accuracy"),
    }


def _notes(subject: Subject) -> list[str]:
    left_out = [
        f"{run.folder.name}: {len(run.damaged)} damaged lines are left out"
        for run in subject.runs
        if run.damaged
    ]
    if subject.grid is None:
        return left_out
    runs = {v.name: v.runs[0].config for group in subject.groups for v in group.variants}
    fresh = {name: describe_fresh(run.fresh, run.transform) for name, run in runs.items()}
    notes, source = [*left_out, *notes_on("fresh tasks", fresh)], subject.grid.source
    precision = {name: run.precision for name, run in runs.items()}
    notes += [*precision_notes(precision), *subject.grid.notes]
    if source and not any(source in note for note in notes):
        notes.append(f"Published numbers: {source}")
    return notes


def _configuration(subject: Subject) -> list[tuple[str, str]]:
    if subject.grid is None:
        return [("config.toml", to_toml(subject.runs[0].config))]
    grid = subject.grid
    return [
        ("What is compared", json.dumps(grid.variants, indent=1, ensure_ascii=False)),
        ("Settings of all runs", json.dumps(grid.settings, indent=1, ensure_ascii=False)),
    ]


def _versions(subject: Subject) -> str:
    found = [run.summary["versions"] for run in subject.runs if run.summary]
    text = ", ".join(f"{name} {version}" for name, version in found[0].items()) if found else ""
    page = f"page by metadrift {__version__}"
    return f"runs by {text}; {page}" if text else page


def _template(name: str) -> str:
    return (resources.files("metadrift.report") / "templates" / name).read_text(encoding="utf-8")
