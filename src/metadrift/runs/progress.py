"""Progress of a run: loss, accuracy, detection, memory and speed beside the bar."""

from __future__ import annotations

from typing import Any

from metadrift.storage.progress import Bar


class RunProgress:
    """Shows training and evaluation in turn.

    Parameters
    ----------
    total, done
        Steps of the run, and steps that a resumed run has done already.
    quiet
        Show nothing.
    """

    def __init__(self, total: int, done: int = 0, quiet: bool = False) -> None:
        self._total = total
        self._other: tuple[str, int, int] | None = None  # what is not training: done, of how many
        self._bar = Bar("training", total, "steps", done=done, quiet=quiet)
        self.say, self.close = self._bar.say, self._bar.close

    def update(self, line: dict[str, Any]) -> None:
        """A new line of metrics."""
        if self._other:
            self._bar.begin("training", self._total, "steps", done=line["step"])
            self._other = None
        self._bar.update(line["step"], describe(line))

    def evaluated(self, done: int, of: int) -> None:
        """Show the number of test tasks done."""
        self._show("evaluating", done, of, "tasks")

    def rehearsed(self, done: int, of: int) -> None:
        """Show the number of steps of the rehearsal done."""
        self._show("rehearsing", done, of, "steps")

    def _show(self, what: str, done: int, of: int, unit: str) -> None:
        name, before, total = self._other or ("", 0, 0)
        if (name, total) != (what, of) or done <= before:  # one evaluation may follow another
            self._bar.begin(what, of, unit, done=done)
        self._other = (what, done, of)
        self._bar.update(done)


def describe(line: dict[str, Any]) -> str:
    """The metrics of a step in one short line.

    Examples
    --------
    >>> describe({"loss": 1.2, "accuracy": 0.5, "statistic": 0.01, "threshold": 0.04,
    ...           "latent_domain": 2, "memory": {"0": 0.5, "2": 0.5}, "steps_per_s": 31.4})
    'loss 1.200 acc 50.0% W .010/.040 domain 2 memory 0:50% 2:50% 31.4 steps/s'
    """
    parts = [f"loss {line['loss']:.3f}", f"acc {100 * line['accuracy']:.1f}%"]
    threshold = line.get("threshold")
    if threshold is not None and threshold == threshold:  # not NaN: the detector has one
        statistic, threshold = (f"{line[k]:.3f}".lstrip("0") for k in ("statistic", "threshold"))
        parts.append(f"W {statistic}/{threshold}")
    if len(line.get("memory") or {}) > 1:
        parts.append(f"domain {line['latent_domain']}")
        shares = " ".join(f"{k}:{100 * v:.0f}%" for k, v in line["memory"].items())
        parts.append(f"memory {shares}")
    parts.append(f"{line['steps_per_s']:.1f} steps/s")
    return " ".join(parts)
