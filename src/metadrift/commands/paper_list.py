"""`metadrift paper list`: the paper's experiments and what they cost."""

from __future__ import annotations

import json as json_text

from metadrift.commands.arguments import Flag, call
from metadrift.errors import UsageError
from metadrift.experiments.paper import cost_of, experiment_names
from metadrift.storage.terminal import print_table


def main(words: list[str]) -> int:
    return call(list_experiments, "paper list", words)


def list_experiments(
    scale: float = 1.0, steps_per_s: float | None = None, json: Flag = False
) -> int:
    """The experiments of the paper: what each is, how many runs, how many training steps.

    Parameters
    ----------
    scale
        Count the steps at this scale.
    steps_per_s
        Training steps per second, as measured here: the steps_per_s in a run's summary.json. Gives
        hours, for one run after the other and without the time of evaluation.
    json
        Print the list as JSON.
    """
    if steps_per_s is not None and not steps_per_s > 0:
        raise UsageError(f"--steps-per-s must be above 0, not {steps_per_s}")
    rows = [cost_of(name, scale, steps_per_s) for name in experiment_names()]
    rows.sort(key=lambda row: (row["source"].startswith("Figure"), row["source"]))
    if json:
        print(json_text.dumps(rows))
        return 0
    counted = ["runs", "steps", *(["hours"] if steps_per_s else [])]
    cells = []
    for row in rows:
        hours = [f"{row['hours']:,.1f}"] if steps_per_s else []
        counts = [str(row["runs"]), f"{row['steps']:,}", *hours]
        cells.append([row["name"], row["title"], row["source"].split(",")[0], *counts])
    title = f"the paper's experiments, scale {scale:g}"
    print_table(["name", "what", "in the paper", *counted], cells, title, right=counted)
    if steps_per_s:
        note = (
            f"hours are steps at {steps_per_s:g} per second, the number you gave, one run after "
            "the other; evaluation is not in it, and methods differ (gss and mir are slowest)"
        )
    else:
        note = (
            "hours need a speed measured on this machine: --steps-per-s takes the steps_per_s of a "
            "finished run's summary.json"
        )
    print(note)
    return 0
