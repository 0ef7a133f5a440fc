"""Kills: at any moment, in the middle of a checkpoint, in the final evaluation."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from trial import Trial, Workshop, expect

from metadrift import registry
from metadrift.runs.config import STREAMS, RunConfig

METHODS = (*registry.built_in("methods"), *STREAMS)
LEARNERS = ("protonet", "anil")
IN_A_CHECKPOINT = [
    "killed_with_half_of_the_tensors", "killed_before_the_json", "killed_before_flushing",
    "killed_before_the_rename", "killed_after_the_rename", "killed_while_pruning",
]  # fmt: skip
ANY, AIMED, LAST = "killed at any moment", "killed in a checkpoint", "killed in the last evaluation"


def trials() -> Iterator[Trial]:
    for method in METHODS:
        for learner in LEARNERS:
            who = {"method": method, "learner": learner}
            name = f"{method} with {learner}"
            for n in range(2):
                when = f"{name} killed at any moment, {n}"
                yield Trial(ANY, when, partial(_at_any_moment, **who))
            yield Trial(AIMED, f"{name} killed in a checkpoint", partial(_in_a_checkpoint, **who))
            yield Trial(LAST, f"{name} killed in the last evaluation", partial(_last, **who))


def _config(work: Workshop, method: str, learner: str) -> RunConfig:
    return replace(work.config, method=method, learner=learner)


def _at_any_moment(
    work: Workshop, place: Path, rng: random.Random, method: str, learner: str
) -> str:
    """Killed by the clock until it comes to its end, each time anywhere in what is left."""
    config = _config(work, method, learner)
    summary = json.loads((work.whole(config) / "summary.json").read_text())
    seconds = 1.5 * summary["timing"]["wall_s"] + 0.3
    run, killed = place / "run", 0
    for _ in range(8):
        sabotage = ["killed_after", rng.uniform(0.01, seconds)]
        if (run / "config.toml").exists():
            code, said = work.resume(run, sabotage)
        else:
            code, said = work.run(place, config, sabotage=sabotage)
        expect(code in (0, -14), f"{code}: {said[-800:]}")
        killed += code != 0
        if killed == 3 or (killed and code == 0):
            break
        if code == 0:  # it was faster than the clock: again from the start, and sooner
            shutil.rmtree(run)
            seconds /= 2
    expect(killed > 0, "it always ended before it could be killed")
    if not (run / "config.toml").exists():  # killed before the run had begun
        code, said = work.run(place, config)
        expect(code == 0, said[-800:])
    work.goes_on_to_the_same(run, config)
    return f"killed {killed} times"


def _in_a_checkpoint(
    work: Workshop, place: Path, rng: random.Random, method: str, learner: str
) -> str:
    config = _config(work, method, learner)
    where = [rng.choice(IN_A_CHECKPOINT), rng.randint(1, 3)]
    if method == "independent":  # its short runs prune nothing
        where = [rng.choice(IN_A_CHECKPOINT[:-1]), 1]
    code, said = work.run(place, config, sabotage=where)
    expect(code == -9, f"{where}: {code}: {said[-800:]}")
    work.goes_on_to_the_same(place / "run", config)
    left = [path for path in (place / "run").rglob("*") if path.name.startswith(".")]
    expect(not left, f"left behind: {left}")
    return str(where)


def _last(work: Workshop, place: Path, rng: random.Random, method: str, learner: str) -> str:
    """After the last step: in the evaluation, or before its summary gets its name."""
    config = replace(_config(work, method, learner), stage_tasks=0)
    code, said = work.run(place, config, sabotage=["killed_in_evaluation", 1])
    expect(code == -9, f"{code}: {said[-800:]}")
    expect(not (place / "run" / "summary.json").exists(), "it has a summary")
    work.goes_on_to_the_same(place / "run", config)
    return "after the last step"
