"""Accidents of a run's folder: two programs, damaged checkpoints, a clock that jumps."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from kills import METHODS
from trial import FailedError, Trial, Workshop, expect, refuse_traceback, shortened

from driven import Driver
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import RunConfig

TWO, DAMAGE, CLOCK = "two programs at once", "damaged checkpoints", "a clock that jumps"
NEWER = "files of a newer version"
FILES = ("state.json", "tensors.safetensors")


def trials() -> Iterator[Trial]:
    for n in range(6):
        yield Trial(TWO, f"two resumes at once, {n}", _two_resumes)
    for n in range(12):
        name = FILES[n % 2]
        yield Trial(DAMAGE, f"a flipped bit in {name}, {n}", partial(_flip, name=name))
        yield Trial(DAMAGE, f"{name} cut, {n}", partial(_cut, name=name))
    yield Trial(DAMAGE, "every checkpoint damaged", _all_damaged)
    for method in METHODS:
        yield Trial(CLOCK, f"{method} with clocks that jump", partial(_clock, method=method))
    for name in ("checkpoint", "config.toml", "benchmark.toml", "summary.json"):
        yield Trial(NEWER, f"a newer {name}", partial(_newer, name=name))


def _stopped(work: Workshop, place: Path) -> tuple[Path, RunConfig]:
    config = replace(work.config, keep=4)
    code, said = work.run(place, config, sabotage=["killed_in_step", 10])
    expect(code == -9, said[-800:])
    return place / "run", config


def _two_resumes(work: Workshop, place: Path, rng: random.Random) -> str:
    """One goes on with the run; the other names it, or finds it finished."""
    run, config = _stopped(work, place)
    work.whole(config)
    (place / "other").mkdir()
    ends: dict[str, tuple[int, str]] = {}

    def go(name: str, driver: Driver, folder: Path) -> None:
        ends[name] = driver(folder, "resume", run, "--json", limit=120)

    both = [
        threading.Thread(target=go, args=("one", work.driver, place)),
        threading.Thread(target=go, args=("two", work.second, place / "other")),
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    if set(ends) != {"one", "two"}:
        raise FailedError("hang", f"only {ends} ended")
    for code, said in ends.values():
        refuse_traceback(code, said)
        expect(code == 0 or "is being run by process" in said, said)
    work.goes_on_to_the_same(run, config)
    return f"codes {sorted(code for code, _ in ends.values())}"


def _hurt(work: Workshop, place: Path, newest: Path, run: Path, config: RunConfig) -> str:
    code, said = work.call(place, "resume", run)
    if code != 0:
        raise FailedError("lost", said[-800:])
    expect("going on from the one before it, step 6" in said, f"not said: {said[:800]}")
    work.same(run, config)
    return shortened(said)


def _flip(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    run, config = _stopped(work, place)
    newest = checkpoints(run / "checkpoints")[-1]
    data = bytearray((newest / name).read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    (newest / name).write_bytes(data)
    return _hurt(work, place, newest, run, config)


def _cut(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    run, config = _stopped(work, place)
    newest = checkpoints(run / "checkpoints")[-1]
    os.truncate(newest / name, rng.randrange((newest / name).stat().st_size))
    return _hurt(work, place, newest, run, config)


def _all_damaged(work: Workshop, place: Path, rng: random.Random) -> str:
    """Nothing is begun anew over what may still be of use to somebody."""
    run, _ = _stopped(work, place)
    for path in checkpoints(run / "checkpoints"):
        os.truncate(path / "tensors.safetensors", 100)
    return work.refused(place, "resume", run, says="step-9 is damaged")


def _clock(work: Workshop, place: Path, rng: random.Random, method: str) -> str:
    config = replace(work.config, method=method)
    code, said = work.run(place, config, sabotage=["clock_jumps", rng.randrange(10**6)])
    expect(code == 0, said[-800:])
    work.same(place / "run", config)
    for words in (["report", place / "run"], ["watch", place / "run", "--once"]):
        code, said = work.call(place, *words, sabotage=["clock_jumps", rng.randrange(10**6)])
        expect(code == 0, said[-800:])
    return "the same numbers"


def _newer(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    run, _ = _stopped(work, place)
    if name == "checkpoint":
        for path in checkpoints(run / "checkpoints"):
            saved = json.loads((path / "state.json").read_text())
            saved["format"] = "metadrift-checkpoint/99"
            (path / "state.json").write_text(json.dumps(saved))
        return work.refused(place, "resume", run, says="metadrift-checkpoint/99")
    if name == "summary.json":
        shutil.copytree(work.whole(work.config), place / "done")
        summary = json.loads((place / "done" / name).read_text()) | {"news": 1}
        (place / "done" / name).write_text(json.dumps(summary))
        code, said = work.call(place, "resume", place / "done")
        expect(code == 0, said)
        return "shown"
    text = (run / name).read_text()
    (run / name).write_text("from_the_future = 1\n" + text)
    return work.refused(place, "resume", run, says="from_the_future")
