"""Make the page of a folder, and its figures."""

from __future__ import annotations

import sys
from pathlib import Path

from metadrift.errors import MetadriftError
from metadrift.report.examples import examples_of
from metadrift.report.page import Pictures, write_page
from metadrift.report.subject import Subject, read_subject
from metadrift.storage.terminal import printable

# What values of another type, shape or size than metadrift writes may raise on their way to a page.
_FOREIGN = (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError)


def make_report(
    folder: Path, out: Path | None = None, figures: Path | None = None, examples: bool = True
) -> tuple[Path, list[Path]]:
    """Write the page, and the figures if asked for. Returns their paths."""
    if not folder.is_dir():
        raise MetadriftError(f"there is no folder {folder} of a run or a comparison")
    page = out or folder / "report.html"
    if not page.parent.is_dir():
        raise MetadriftError(f"the folder {page.parent} for the page does not exist")
    try:
        subject = read_subject(folder)
        for line in (line for run in subject.runs for line in run.damaged):
            print(f"left out: {printable(line)}", file=sys.stderr)
        write_page(subject, page, _pictures(subject) if examples else [])
        if figures is None:
            return page, []
        from metadrift.report.figures import write_figures

        return page, write_figures(subject, figures)
    except _FOREIGN as error:
        raise MetadriftError(
            f"{folder} holds files that differ from what metadrift writes: {error!r}"
        ) from error
    except OSError as error:
        raise MetadriftError(f"the report of {folder} could not be written: {error}") from None


def _pictures(subject: Subject) -> list[Pictures]:
    """Examples of the first seed of each variant, in the first group only."""
    found = [(v.label, examples_of(v.runs[0])) for v in subject.groups[0].variants]
    return [Pictures(label, tasks) for label, tasks in found if tasks]
