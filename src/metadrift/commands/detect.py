"""`metadrift detect`: the detector alone, on any stream of vectors."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from metadrift import registry
from metadrift.commands.arguments import Flag, call
from metadrift.data.vector_files import Missing, TableFormat, read_vectors
from metadrift.detection.trace import EVERY, Trace, detect
from metadrift.errors import UsageError
from metadrift.storage.progress import Bar


def main(words: list[str]) -> int:
    # The same word as for runs.
    split = [word.partition("=") for word in words]
    words = [("--mode" if o == "--detector" else o) + sign + value for o, sign, value in split]
    return call(detect_changes, "detect", words)


def detect_changes(
    embeddings: tyro.conf.Positional[Path],
    /,
    *,
    out: Path | None = None,
    false_alarm_every: int | None = None,
    window: int = 50,
    mode: str = "default",
    columns: tuple[str, ...] = (),
    delimiter: str = ",",
    time: str | None = None,
    missing: Missing = "refuse",
    seed: int = 0,
    json: Flag = False,
) -> int:
    """Find where the distribution of a stream of vectors changes: one row per step.

    Prints at which step each change was noticed and at which it began. The rows may have any scale
    and any length. As long as nothing changes, they should be nearly independent of each other.

    Parameters
    ----------
    embeddings
        A .npy file [steps, D] (or [steps]) of numbers, or a .csv, .tsv or .txt file with one row
        per step, with or without a line of column names; - reads such a table from standard input.
        Nothing is unpickled.
    out
        A folder for detection.png, .svg and .pdf (statistic, threshold, reports), trace.csv (the
        same as numbers) and changes.json.
    false_alarm_every
        At most one false alarm in this many steps; 10000 by default. A larger number finds changes
        a little later. Not for mode paper, whose threshold is fixed.
    window
        B, steps in each of the two windows that are compared. A change is noticed some B/2 to 2B
        steps after it began; two changes should be at least 3B apart.
    mode
        default: an alarm by MMD between two windows, then a test on fresh rows. fourier: the same
        with a first stage that keeps no window. paper: the MLSID paper's Algorithm 1 as printed.
        Or a detector of an installed package, package.module:Name or file.py:Name. Also
        --detector.
    columns
        For tables of text: the columns to watch, by name or by number from 1; all by default.
    delimiter
        For tables of text: the character between two cells.
    time
        For tables of text: a column to ignore, such as a timestamp.
    missing
        For tables of text: refuse a row with a missing value, or skip it. Steps count the rows
        that remain.
    seed
        The seed of the permutations.
    json
        Print the result as one JSON object.
    """
    registry.check("detectors", mode)
    if seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {seed}")
    if window < 3:
        raise UsageError(f"--window must be at least 3 steps, not {window}")
    if false_alarm_every is not None and not 1 <= false_alarm_every <= 10**15:
        raise UsageError("--false-alarm-every must be between 1 and 10^15 steps")
    if false_alarm_every is not None and mode not in ("default", "fourier"):
        raise UsageError("--false-alarm-every is for the modes default and fourier only")
    vectors = read_vectors(embeddings, TableFormat(columns, delimiter, time, missing))
    with Bar("reading", len(vectors), "steps") as bar:
        trace = detect(
            vectors,
            mode=mode,
            window=window,
            false_alarm_every=false_alarm_every,
            seed=seed,
            progress=bar.advance,
        )
    asked = None if mode not in ("default", "fourier") else false_alarm_every or EVERY
    result = _result(embeddings, vectors, trace, asked)
    if out is not None:
        from metadrift.report.trace_files import write_trace

        result["files"] = [str(path) for path in write_trace(trace, result, out, embeddings.name)]
    print(json_text.dumps(result, indent=1) if json else _text(result))
    return 0


def _result(path: Path, vectors: np.ndarray, trace: Trace, asked: int | None) -> dict[str, Any]:
    config = trace.config
    return {
        "file": str(path),
        "steps": len(vectors),
        "dimensions": vectors.shape[1],
        "mode": config.mode,
        "window": config.window,
        "burn_in": None if config.mode == "paper" else config.burn_in,
        "false_alarm_every": asked,
        "delta": config.delta,
        "level": None if config.mode == "paper" else config.level,
        "changes": [asdict(change) for change in trace.changes],
    }


def _text(result: dict[str, Any]) -> str:
    n = len(result["changes"])
    found = "1 change" if n == 1 else f"{n} changes"
    numbers = "1 number" if result["dimensions"] == 1 else f"{result['dimensions']} numbers"
    lines = [f"{result['steps']} steps of {numbers}: {found}"]
    lines += [
        f"  began at step {c['started_at']}, noticed at step {c['at_step']} "
        f"(statistic {c['statistic']:.4g}, threshold {c['threshold']:.4g})"
        for c in result["changes"]
    ]
    if result["false_alarm_every"]:
        lines.append(
            f"settings: at most one false alarm in {result['false_alarm_every']} steps "
            f"(window {result['window']}, delta {result['delta']:.2f}, "
            f"level {result['level']:.2g})"
        )
    learned = result["burn_in"] or result["window"]
    least = learned + 2 * result["window"]
    if result["steps"] < least:
        seen = ", where only a large change is found" if result["burn_in"] else ""
        lines.append(
            f"the stream is short: with window {result['window']} the first {learned} steps are "
            f"learned as usual{seen}; {least} are needed to compare others with them, and a "
            "smaller --window needs fewer"
        )
    return "\n".join(lines + [f"written: {path}" for path in result.get("files", [])])
