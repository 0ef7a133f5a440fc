"""`metadrift report`."""

from __future__ import annotations

import json as text
from pathlib import Path

import tyro

from metadrift.commands.arguments import call
from metadrift.report.make import make_report
from metadrift.storage.terminal import printable


def main(words: list[str]) -> int:
    return call(report, "report", words)


def report(
    folder: tyro.conf.Positional[Path],
    /,
    out: Path | None = None,
    figures: Path | None = None,
    examples: bool = True,
    json: bool = False,
) -> int:
    """Make one self-contained HTML page of a run or a comparison, finished or still running.

    Parameters
    ----------
    folder
        The folder of a run or of a comparison.
    out
        The page's file; by default report.html in the folder.
    figures
        Also write the charts as PNG, SVG and PDF and the tables as Markdown, LaTeX and CSV into
        this folder.
    examples
        Show test tasks with the predictions of the last checkpoint, if it and the packs exist.
    json
        Print what was written as JSON.
    """
    page, files = make_report(folder, out, figures, examples)
    if json:
        print(text.dumps({"report": str(page), "figures": [str(file) for file in files]}))
        return 0
    if figures is not None:
        print(f"{len(files)} figures and tables: {figures}")
    print(f"report: {printable(str(page))}")
    return 0
