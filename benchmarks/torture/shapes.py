"""Shapes at the edge: very many, very few, very small, and paths and outputs that are odd."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from trial import FailedError, Trial, Workshop, expect, refuse_traceback, shortened

from metadrift.data.pack import SPLITS, write_pack

KIND = "shapes at the edge"
THREE = ["--ways", "3"]
SMALL = ["--test-tasks", "2", "--stage-tasks", "0", "--learn.filters", "4", "--queries", "2"]


def trials() -> Iterator[Trial]:
    for name, (make, more) in BENCHMARKS.items():
        for learner in ("protonet", "anil"):
            words = partial(_run, make=make, more=more, learner=learner, name=name)
            yield Trial(KIND, f"{name}, {learner}", words)
    for what in ("closed", "full", "a pipe that ends"):
        for command in ("run", "watch", "data list", "--help"):
            attempt = partial(_output, what=what, command=command)
            yield Trial(KIND, f"{command} with an output that is {what}", attempt)
    for name, folder in PATHS.items():
        yield Trial(KIND, f"a run in a path {name}", partial(_path, folder=folder))


def _pack(folder: Path, classes: int, size: int, images: int = 4) -> Path:
    rng = np.random.default_rng(0)
    shape = (images, size, size, 1)
    rows = ((f"c{c}", SPLITS[c % 3], rng.integers(0, 255, shape, np.uint8)) for c in range(classes))
    return write_pack(folder / "p", "p", rows, source="here", licence="CC0")


def _stream(folder: Path, *stays: int, memory: int = 4) -> Path:
    lines = [f"memory = {memory}"]
    for k, steps in enumerate(stays):
        lines += ["[[segments]]", f'domain = "d{k}"', f"steps = {steps}", 'pack = "p"']
    (folder / "b.toml").write_text("\n".join(lines))
    return folder / "b.toml"


def _of(
    classes: int, size: int, images: int, *stays: int, memory: int = 4
) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        _pack(folder, classes, size, images)
        return _stream(folder, *stays, memory=memory)

    return make


# A benchmark and options. What is not in WORKS may be refused, in one sentence.
BENCHMARKS: dict[str, tuple[Callable[[Path], Path], list[str]]] = {
    "10,000 classes": (_of(10_000, 8, 4, 4), ["--ways", "5"]),
    "fewer classes than ways": (_of(9, 8, 4, 4), ["--ways", "5"]),
    "fewer pictures than shots": (_of(18, 8, 4, 4), ["--ways", "3", "--shots", "9"]),
    "pictures of 1x1": (_of(18, 1, 4, 4), ["--ways", "3"]),
    "pictures of 3x3": (_of(18, 3, 4, 4), ["--ways", "3"]),
    "a stay of no steps": (_of(18, 8, 4, 4, 0, 4), ["--ways", "3"]),
    "a stay of one step": (_of(18, 8, 4, 4, 1, 4), ["--ways", "3"]),
    "a scale at which windows vanish": (_of(18, 8, 4, 4000, 4000), [*THREE, "--scale", "0.001"]),
    "a scale at which the stream is gone": (_of(18, 8, 4, 40, 40), [*THREE, "--scale", "0.000001"]),
    "a memory of 1": (_of(18, 8, 4, 8, 8, memory=1), ["--ways", "3"]),
    "a memory of 0": (_of(18, 8, 4, 8, 8, memory=0), ["--ways", "3"]),
    "2 ways and 50 shots": (_of(18, 8, 60, 4), ["--ways", "2", "--shots", "50"]),
    "one class in a split": (_of(3, 8, 4, 4), ["--ways", "2"]),
}  # fmt: skip
WORKS = {"10,000 classes", "a stay of one step", "a memory of 1", "2 ways and 50 shots"}


def _run(
    work: Workshop, place: Path, rng: random.Random,
    make: Callable[[Path], Path], more: list[str], learner: str, name: str,
) -> str:  # fmt: skip
    for method in ("m2d3-pets", "reservoir"):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        words = ["run", "--benchmark", make(place), "--learner", learner, "--method", method]
        code, said = work.call(
            place, *words, *SMALL, *more, "--out", place / "runs", "--name", "run",
            sabotage=["little_memory", 4 * 2**30],
        )  # fmt: skip
        expect(code in (0, 1, 2), said)
        expect(code == 0 or name not in WORKS, f"it should work: {said[-500:]}")
        if code:
            expect(len(said.strip().splitlines()) <= 3, f"more than a sentence: {said[-800:]}")
            expect(not (place / "runs" / "run" / "checkpoints").exists(), "it began anyway")
        else:
            code, told = work.call(place, "report", place / "runs" / "run")
            expect(code == 0, told)
    return shortened(said)


def _output(work: Workshop, place: Path, rng: random.Random, what: str, command: str) -> str:
    """As a shell does it: `>&-`, `> /dev/full`, `| head -c 1`."""
    run = work.finished(place)
    words = {
        "run": work.driver._run(place, work.config, "new")[:-1],
        "watch": ["watch", str(run), "--once"],
        "data list": ["data", "list", "--data", str(work.home)],
        "--help": ["--help"],
    }[command]
    redirected = {"closed": ">&-", "full": "> /dev/full", "a pipe that ends": "| head -c 1"}[what]
    program = str(Path(sys.executable).parent / "metadrift")
    script = f'set -o pipefail; "$@" {redirected}'
    try:
        done = subprocess.run(
            ["bash", "-c", script, "bash", program, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        raise FailedError("hang", f"{command} did not end in 300 s") from None
    refuse_traceback(done.returncode, done.stderr)
    expect("Exception ignored" not in done.stderr, done.stderr[-500:])
    if command == "run":  # what it computed is there whoever listens
        if (place / "new" / "summary.json").exists():
            work.same(place / "new", work.config)
        else:
            work.goes_on_to_the_same(place / "new", work.config)
    return f"{done.returncode}: {shortened(done.stderr)}"


PATHS = {
    "of many alphabets": "日本 – ünï/😀 ещё/ال",
    "with quotes and spaces": "a 'b\" $(x) `y`/ c ;d",
    "of 240 letters a part": "/".join(["x" * 240] * 3),
    "of 3,500 letters": "/".join(["y" * 200] * 17),
    "with a line end": "a\nb",
    "with terminal codes": "\x1b[31mred\x07",
}


def _path(work: Workshop, place: Path, rng: random.Random, folder: str) -> str:
    home = place / folder
    home.mkdir(parents=True)
    words: list[Any] = [
        *work.driver._run(place, work.config, "c")[:3],
        "--out",
        home,
        "--name",
        "r",
    ]
    code, said = work.call(place, *words, sabotage=["killed_in_step", 8])
    expect(code in (-9, 1), said)
    if code == -9:
        code, said = work.call(place, "resume", home / "r")
        expect(code == 0, said)
        work.same(home / "r", work.config)
        for more in (["report", home / "r"], ["watch", home / "r", "--once"]):
            code, said = work.call(place, *more)
            expect(code == 0, said)
    return f"{code}: {shortened(said)}"
