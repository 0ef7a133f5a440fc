"""A run's folder: metrics and events line by line, and the summary at the end."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metadrift import __version__, registry
from metadrift.errors import MetadriftError
from metadrift.methods.base import StepRecord
from metadrift.storage.files import flush, open_without_links, plain
from metadrift.storage.reading import as_text, parse_json, read_json_lines


class Recorder:
    """Writes `metrics.jsonl` (a line every few steps) and `events.jsonl` (what happened).

    A checkpoint stores the length of the two files. A resumed run cuts them back to it, so no step
    is written twice.

    Parameters
    ----------
    folder
        The run's folder.
    log_every
        Steps between two lines of metrics. Loss and accuracy are means over those steps.
    writes
        False in all processes but one: they gather numbers and write nothing.

    Attributes
    ----------
    lost
        Sentences about lines of the two files that a crash of the machine lost.
    """

    def __init__(self, folder: Path, log_every: int, writes: bool = True) -> None:
        self._writes = writes
        self._files = {name: folder / f"{name}.jsonl" for name in ("metrics", "events")}
        for path in self._files.values() if writes else ():
            open_without_links(path, "ab").close()
        self.lost: list[str] = []
        self._log_every = log_every
        self._sums = [0.0, 0.0, 0.0]
        self._replays = self._since = 0
        self._clock = time.perf_counter()

    def step(self, step: int, record: StepRecord, **more: Any) -> dict[str, Any] | None:
        """Add one step (from 0). Returns the line of metrics when one is due."""
        self._since += 1
        self._sums[0] += record.loss
        self._sums[1] += record.accuracy
        if math.isfinite(record.replay_loss):
            self._sums[2] += record.replay_loss
            self._replays += 1
        if (step + 1) % self._log_every:
            return None
        now = time.perf_counter()
        line = {
            **record.extra,
            "step": step + 1,
            "loss": self._sums[0] / self._since,
            "accuracy": self._sums[1] / self._since,
            "replay_loss": self._sums[2] / self._replays if self._replays else math.nan,
            "latent_domain": record.latent_domain,
            "steps_per_s": self._since / max(now - self._clock, 1e-9),
            **more,
        }
        self._sums, self._replays, self._since, self._clock = [0.0, 0.0, 0.0], 0, 0, now
        self._write("metrics", line)
        return line

    def event(self, step: int, what: str, **details: Any) -> None:
        self._write("events", {"step": step, "event": what, **details})

    def start_over(self) -> None:
        """Remove the lines of a run that ended before its first checkpoint."""
        for path in self._files.values():
            open_without_links(path, "wb").close()

    def flush(self) -> None:
        """Flush the lines that the next checkpoint counts on to the disk."""
        if self._writes:
            flush(*self._files.values())

    def state_dict(self) -> dict[str, Any]:
        """The lengths of the files, and the sums of the current line."""
        lengths = {f"{name}_bytes": path.stat().st_size for name, path in self._files.items()}
        return {**lengths, "sums": list(self._sums), "replays": self._replays, "since": self._since}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in self._files if self._writes else ():
            self._cut_back(name, int(state[f"{name}_bytes"]))
        self._sums = [float(value) for value in state["sums"]]
        self._replays, self._since = int(state["replays"]), int(state["since"])

    def _cut_back(self, name: str, length: int) -> None:
        """Keep the lines from before the checkpoint, up to the last whole one."""
        if length < 0:
            raise ValueError(f"{name}.jsonl cannot have had {length} bytes")
        with open_without_links(self._files[name], "r+b") as file:
            kept = file.read(length)
            whole = kept.rfind(b"\n") + 1
            file.truncate(whole)
        if whole < length:
            self.lost.append(
                f"{self._files[name]} had {length} bytes at the checkpoint and has {whole} now: "
                "the lines between are lost"
            )

    def _write(self, name: str, line: dict[str, Any]) -> None:
        if not self._writes:
            return
        with open_without_links(self._files[name], "ab") as file:
            file.write((json.dumps(plain(line), allow_nan=False) + "\n").encode())


def versions() -> dict[str, str]:
    """Versions of everything that computes the numbers. `code` is a hash of the package's source.

    Plug-ins are listed with the sha256 of their files.
    """
    return _own_versions() | registry.loaded()


@cache
def _own_versions() -> dict[str, str]:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return {
        "metadrift": __version__,
        "code": digest.hexdigest()[:12],
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def read_lines(path: Path, damaged: list[str] | None = None) -> list[dict[str, Any]]:
    """The whole lines of a jsonl file, without a last line that is still being written.

    A damaged line raises an error. With a list `damaged` it is left out and named in the list.
    """
    return read_json_lines(path, damaged=damaged) if path.is_file() else []


def read_last_line(path: Path) -> dict[str, Any] | None:
    """The last whole line of a jsonl file, without reading the rest; None if it is damaged."""
    if not path.is_file():
        return None
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 65536))
        rows = file.read().split(b"\n")[:-1]
    try:
        line = parse_json(as_text(rows[-1], str(path)), str(path)) if rows else None
    except MetadriftError:
        return None
    return line if isinstance(line, dict) else None
