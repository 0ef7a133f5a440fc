"""Callbacks for loggers and custom metrics, and the loggers of this package."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metadrift.errors import UsageError
from metadrift.learners import MetaLearner
from metadrift.runs.config import RunConfig
from metadrift.runs.record import read_lines
from metadrift.storage.files import write_atomically


class Callback:
    """Override the methods you need; the others do nothing.

    With several processes only the one that writes the run's folder calls it. A callback must not
    change the learner.

    Examples
    --------
    >>> class Worst(Callback):
    ...     def on_stage(self, step, accuracy, learner):
    ...         return {"worst": min(accuracy.values())}
    >>> Worst().on_stage(100, {"birds": 0.5, "planes": 0.4}, None)
    {'worst': 0.4}
    """

    def on_begin(self, folder: Path, settings: Mapping[str, Any], step: int) -> None:
        """Before the first step of this process. A resumed run continues from `step`."""

    def on_step(self, line: Mapping[str, Any]) -> None:
        """A new line of metrics.jsonl; `--log-every 1` writes one at each step."""

    def on_stage(
        self, step: int, accuracy: Mapping[str, float], learner: MetaLearner
    ) -> Mapping[str, float] | None:
        """After a true segment: the accuracy of every domain, and the learner that has it.

        The numbers that it returns go into events.jsonl beside the accuracy.
        """

    def on_end(self, summary: Mapping[str, Any] | None) -> None:
        """The final numbers, as summary.json holds them; None if the run was stopped before."""


def loggers(config: RunConfig) -> list[Callback]:
    """The loggers of this package that the settings ask for."""
    asked = {CsvWriter: config.csv, TensorBoardWriter: config.tensorboard}
    return [kind() for kind, wanted in asked.items() if wanted]


class CsvWriter(Callback):
    """Writes metrics.csv, a table of the lines of metrics, at every stage and at the end."""

    def on_begin(self, folder: Path, settings: Mapping[str, Any], step: int) -> None:
        self._folder = folder

    def on_stage(self, step: int, accuracy: Mapping[str, float], learner: MetaLearner) -> None:
        self._write()

    def on_end(self, summary: Mapping[str, Any] | None) -> None:
        self._write()

    def _write(self) -> None:
        rows = [scalars(line) for line in read_lines(self._folder / "metrics.jsonl")]
        names = dict.fromkeys(["step", *(name for row in rows for name in row)])
        text = io.StringIO()
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self._folder / "metrics.csv", text.getvalue())


class TensorBoardWriter(Callback):
    """Writes curves into `tensorboard/` of the run's folder."""

    def __init__(self) -> None:
        self._make = summary_writer()

    def on_begin(self, folder: Path, settings: Mapping[str, Any], step: int) -> None:
        self._board = self._make(str(folder / "tensorboard"), purge_step=step + 1)

    def on_step(self, line: Mapping[str, Any]) -> None:
        self._show(int(line["step"]), scalars(line))

    def on_stage(self, step: int, accuracy: Mapping[str, float], learner: MetaLearner) -> None:
        self._show(step, {f"test accuracy/{name}": value for name, value in accuracy.items()})

    def on_end(self, summary: Mapping[str, Any] | None) -> None:
        self._board.close()

    def _show(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            if name != "step":
                self._board.add_scalar(name, value, step)


def scalars(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of metrics by name, shares and probabilities of groups by group/name.

    Examples
    --------
    >>> scalars({"step": 10, "loss": 1.5, "replay_loss": None, "memory": {"0": 0.25, "1": 0.75}})
    {'step': 10, 'loss': 1.5, 'memory/0': 0.25, 'memory/1': 0.75}
    """
    found: dict[str, float] = {}
    for name, value in line.items():
        if isinstance(value, Mapping):
            found |= {f"{name}/{key}": number for key, number in value.items()}
        elif isinstance(value, int | float):
            found[name] = value
    return found


def summary_writer() -> Any:
    """TensorBoard's writer, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError(
            "--tensorboard needs the extra: pip install 'metadrift[tensorboard]'"
        ) from None
    return SummaryWriter
