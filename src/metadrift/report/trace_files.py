"""The files of a detection: charts, the trace as numbers, and the changes."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from metadrift.detection.trace import Trace
from metadrift.errors import MetadriftError
from metadrift.report.trace_plot import draw_trace
from metadrift.storage.files import write_atomically, write_json


def write_trace(trace: Trace, result: dict[str, Any], out: Path, name: str) -> list[Path]:
    """Write the charts, trace.csv (a row per step) and changes.json. Returns their paths."""
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(["step", "statistic", "threshold"])
    pairs = zip(trace.statistic.tolist(), trace.threshold.tolist(), strict=True)
    for step, pair in enumerate(pairs):
        writer.writerow([step, *("" if value != value else repr(value) for value in pair)])
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "trace.csv", table.getvalue())
        write_json(out / "changes.json", result)
    except OSError as error:
        raise MetadriftError(f"the result cannot be written to {out}: {error}") from None
    charts = draw_trace(trace, out / "detection", name)
    return [*charts, out / "trace.csv", out / "changes.json"]
