"""`metadrift detect`: the detector alone, on any stream of vectors."""

from __future__ import annotations

import csv
import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from metadrift.data.pack import NPY_ERRORS
from metadrift.detection.config import Mode
from metadrift.detection.trace import EVERY, Trace, detect
from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.progress import Bar

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def detect_changes(
    embeddings: tyro.conf.Positional[Path],
    /,
    *,
    out: Path | None = None,
    false_alarm_every: int | None = None,
    window: int = 50,
    mode: Mode = "default",
    seed: int = 0,
    json: Flag = False,
) -> int:
    """Find where the distribution of a stream of vectors changes: one row a step.

    Says at which step each change was noticed and at which it began. The rows may have any scale
    and any length; within one regime they should be nearly independent of each other.

    Parameters
    ----------
    embeddings
        A .npy file [steps, D] (or [steps]) of numbers, or a .csv file with a row a step, with or
        without a line of column names. Nothing is unpickled.
    out
        A folder for detection.png, .svg and .pdf (statistic, threshold, reports), trace.csv (the
        same as numbers) and changes.json.
    false_alarm_every
        At most one false alarm in so many steps. Without it 10000. More means surer and a little
        later. Not for mode paper, whose threshold is printed.
    window
        B, steps in each of the two windows that are compared. A change is noticed some B to 2B
        steps after it began; two changes should lie at least 3B apart.
    mode
        default: an alarm by MMD between two windows, then a test on fresh rows. fourier: the same
        with a first stage that keeps no window. paper: the MLSID paper's Algorithm 1 as printed.
    seed
        Of the permutations.
    json
        Print the result as one JSON object.
    """
    if window < 3:
        raise UsageError(f"--window must be at least 3 steps, not {window}")
    if false_alarm_every is not None and false_alarm_every < 1:
        raise UsageError(f"--false-alarm-every must be at least 1 step, not {false_alarm_every}")
    if false_alarm_every is not None and mode == "paper":
        raise UsageError("--false-alarm-every is for the modes default and fourier, not for paper")
    vectors = read_vectors(embeddings)
    with Bar("reading", len(vectors), "steps") as bar:
        trace = detect(
            vectors,
            mode=mode,
            window=window,
            false_alarm_every=false_alarm_every,
            seed=seed,
            progress=bar.advance,
        )
    asked = None if mode == "paper" else false_alarm_every or EVERY
    result = _result(embeddings, vectors, trace, asked)
    if out is not None:
        result["files"] = [str(path) for path in _write(trace, result, out, embeddings.name)]
    print(json_text.dumps(result, indent=1) if json else _text(result))
    return 0


def read_vectors(path: Path) -> np.ndarray:
    """[steps, D] from a .npy file (mapped, not copied) or a .csv file."""
    if not path.is_file():
        raise MetadriftError(f"there is no file {path}")
    vectors = _read_csv(path) if path.suffix.lower() == ".csv" else _read_npy(path)
    if vectors.ndim == 1:
        vectors = vectors[:, None]
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise MetadriftError(
            f"{path} holds an array {list(vectors.shape)}; it should be [steps, D], a row a step"
        )
    return vectors


def _read_npy(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except NPY_ERRORS as error:
        pickled = "pickle" in str(error) or "Python objects" in str(error)
        why = "it holds pickled objects, which are refused" if pickled else error
        raise MetadriftError(
            f"{path} cannot be read as a .npy file: {why}; `numpy.save` of a plain array makes one"
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        kind = getattr(array, "dtype", "several arrays")
        raise MetadriftError(f"{path} holds {kind}; it should hold one array of real numbers")
    return array


def _read_csv(path: Path) -> np.ndarray:
    rows: list[list[float]] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            for number, cells in enumerate(csv.reader(file), 1):
                if not cells:
                    continue
                try:
                    rows.append([float(cell) for cell in cells])
                except ValueError:
                    if number == 1:
                        continue  # the names of the columns
                    raise MetadriftError(
                        f"{path}, line {number}: {cells[:3]} are not all numbers"
                    ) from None
                if len(rows[-1]) != len(rows[0]):
                    raise MetadriftError(
                        f"{path}, line {number} has {len(rows[-1])} numbers, the first row "
                        f"{len(rows[0])}"
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MetadriftError(f"{path} cannot be read: {error}") from None
    return np.array(rows, np.float64)


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
    lines = [f"{result['steps']} steps of {result['dimensions']} numbers: {n} changes"]
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
    least = (result["burn_in"] or result["window"]) + 2 * result["window"]
    if result["steps"] < least:
        lines.append(
            f"the stream is short: with window {result['window']} the first {least} steps are "
            "needed to learn what is usual; a smaller --window needs fewer"
        )
    return "\n".join(lines + [f"written: {path}" for path in result.get("files", [])])


def _write(trace: Trace, result: dict[str, Any], out: Path, name: str) -> list[Path]:
    from metadrift.report.trace_plot import draw_trace

    try:
        out.mkdir(parents=True, exist_ok=True)
        changes, table = out / "changes.json", out / "trace.csv"
        changes.write_text(json_text.dumps(result, indent=1) + "\n", encoding="utf-8")
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "statistic", "threshold"])
            pairs = zip(trace.statistic.tolist(), trace.threshold.tolist(), strict=True)
            for step, pair in enumerate(pairs):
                writer.writerow([step, *("" if value != value else repr(value) for value in pair)])
    except OSError as error:
        raise MetadriftError(f"the result cannot be written to {out}: {error}") from None
    return [*draw_trace(trace, out / "detection", name), table, changes]
