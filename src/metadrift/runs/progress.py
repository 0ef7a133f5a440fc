"""How far a run is: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

SECONDS_BETWEEN_LINES = 15.0


class RunProgress:
    """Shows loss, accuracy, statistic against threshold, latent domain, memory and speed.

    Parameters
    ----------
    total, done
        Steps of the run, and how many a resumed run has behind it.
    quiet
        Show nothing.
    """

    def __init__(self, total: int, done: int = 0, quiet: bool = False) -> None:
        self._total, self._quiet = total, quiet
        self._last = time.monotonic()
        self._bars: Progress | None = None
        if not quiet and sys.stderr.isatty():
            self._bars = Progress(
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.fields[line]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bar = self._bars.add_task("", total=total, completed=done, line="")
            self._bars.start()

    def update(self, line: dict[str, Any]) -> None:
        """A new line of metrics."""
        if self._bars:
            self._bars.update(self._bar, completed=line["step"], line=describe(line))
        elif self._line_due():
            left = (self._total - line["step"]) / max(line["steps_per_s"], 1e-9)
            self.say(f"step {line['step']}/{self._total} {describe(line)} {left:.0f} s left")

    def evaluated(self, done: int, of: int) -> None:
        """How many of the unseen tasks are scored."""
        text = f"evaluating: {done}/{of} tasks"
        if self._bars:
            self._bars.update(self._bar, line=text)
        elif self._line_due():
            self.say(text)

    def _line_due(self) -> bool:
        due = not self._quiet and time.monotonic() - self._last > SECONDS_BETWEEN_LINES
        if due:
            self._last = time.monotonic()
        return due

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._quiet:
            return
        if self._bars:
            self._bars.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._bars:
            self._bars.stop()
            self._bars = None


def printable(name: str) -> str:
    """A name without the codes that a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in name)


def describe(line: dict[str, Any]) -> str:
    """The metrics of a step in one short line.

    Examples
    --------
    >>> describe({"loss": 1.2, "accuracy": 0.5, "statistic": 0.01, "threshold": 0.04,
    ...           "latent_domain": 2, "memory": {"0": 0.5, "2": 0.5}, "steps_per_s": 31.4})
    'loss 1.200 acc 50.0% W .010/.040 domain 2 memory 0:50% 2:50% 31.4 steps/s'
    """
    parts = [f"loss {line['loss']:.3f}", f"acc {100 * line['accuracy']:.1f}%"]
    if line["threshold"] == line["threshold"]:  # not NaN
        statistic, threshold = (f"{line[k]:.3f}".lstrip("0") for k in ("statistic", "threshold"))
        parts.append(f"W {statistic}/{threshold}")
    if len(line.get("memory") or {}) > 1:
        parts.append(f"domain {line['latent_domain']}")
        shares = " ".join(f"{k}:{100 * v:.0f}%" for k, v in line["memory"].items())
        parts.append(f"memory {shares}")
    parts.append(f"{line['steps_per_s']:.1f} steps/s")
    return " ".join(parts)
