"""torchrun with two ranks, of which one is killed, stopped, or alone in computing NaN."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from trial import FailedError, Trial, Workshop, expect, refuse_traceback, shortened

from metadrift.runs.checkpoint import checkpoints, steps_of
from metadrift.runs.config import RunConfig, to_toml
from metadrift.runs.record import read_lines
from tiny_runs import assert_same_run, write_benchmark

KIND = "two ranks"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
WORKER = Path(__file__).with_name("rank_worker.py")
STEPS = {"dark": 80, "bright": 60}
METHODS = ("m2d3-pets", "sequential")  # of the trials on rank 0, and on rank 1
FOLDER = "TORTURE_RANKS"  # in the environment of the ranks: the folder they were started for
WITHIN = 60  # seconds until every rank has ended


def trials() -> Iterator[Trial]:
    for rank in (0, 1):
        yield Trial(KIND, f"rank {rank} is killed", partial(_hit, rank=rank, number=signal.SIGKILL))
        yield Trial(
            KIND, f"rank {rank} is stopped", partial(_hit, rank=rank, number=signal.SIGSTOP)
        )
        yield Trial(KIND, f"rank {rank} alone computes NaN", partial(_nan, rank=rank))
        yield Trial(KIND, f"a flipped bit in what rank {rank} saved", partial(_flip, rank=rank))


def _config(work: Workshop, method: str) -> RunConfig:
    file = work.home / "ranks.toml"
    if not file.exists():
        write_benchmark(file, STEPS, memory=6, tasks_per_step=4)
    every = {"checkpoint_every": 10, "keep": 3, "log_every": 1, "stage_tasks": 0}
    return replace(work.config, method=method, benchmark=str(file), lr=3e-4, **every)


def _start(folder: Path, words: list[Any], **environment: str) -> subprocess.Popen[bytes]:
    """Two ranks; what they say goes to folder/said.txt."""
    with open(folder / "said.txt", "wb") as said:
        return subprocess.Popen(
            [*TORCHRUN, str(WORKER), *map(str, words)],
            stdout=said,
            stderr=said,
            env=os.environ | {"OMP_NUM_THREADS": "1", FOLDER: str(folder)} | environment,
        )


def _undisturbed(work: Workshop, method: str) -> Path:
    """The same run on two ranks without any accident, made once."""
    run = work.home / f"two-ranks-{method}"
    if not run.exists():
        process = _start(work.home, _words(work, work.home, run.name, method))
        expect(_end(process, work.home, 600) == 0, (work.home / "said.txt").read_text()[-800:])
    return run


def _words(work: Workshop, folder: Path, name: str, method: str) -> list[Any]:
    (folder / f"{name}.toml").write_text(to_toml(_config(work, method)))
    return ["run", "--config", folder / f"{name}.toml", "--out", folder, "--name", name, "--json"]


def _end(process: subprocess.Popen[bytes], folder: Path, limit: float) -> int:
    """Wait until torchrun and every rank has ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=limit)
    late = process.poll() is None
    left = [pid for rank in (0, 1) if (pid := _rank(folder, rank))]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if late:
        process.kill()
        process.wait()
    if late or left:
        what = "torchrun" if late else f"torchrun has ended, but ranks {left}"
        raise FailedError("hang", f"{what} not ended after {limit} s")
    return process.returncode


def _rank(folder: Path, rank: int) -> int | None:
    """The process that is this rank of the run in a folder, whether torchrun still is or not."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            its = "\0" + (place / "environ").read_text(errors="replace")
        except OSError:
            continue
        if f"\0RANK={rank}\0" in its and f"\0{FOLDER}={folder}\0" in its:
            return int(place.name)
    return None


def _hit(work: Workshop, place: Path, rng: random.Random, rank: int, number: signal.Signals) -> str:
    method = METHODS[rank]
    _undisturbed(work, method)
    process, run = _start(place, _words(work, place, "run", method)), place / "run"
    end = time.monotonic() + 300
    while len(checkpoints(run / "checkpoints")) < 2:
        expect(process.poll() is None and time.monotonic() < end, "it ended before the accident")
        time.sleep(0.01)
    time.sleep(rng.uniform(0, 0.3))
    pid = _rank(place, rank)
    expect(pid is not None, "the rank ended before the accident")
    assert pid is not None
    os.kill(pid, number)
    began = time.monotonic()
    code = _end(process, place, WITHIN)
    seconds = time.monotonic() - began
    expect(code != 0, "it ended as if nothing had happened")
    said = _one_message(place, "has lost the others")
    expect("metadrift resume" in said, said)
    seen = _both_ways(work, place, run, method)
    return f"ended after {seconds:.0f} s; {seen}"


def _nan(work: Workshop, place: Path, rng: random.Random, rank: int) -> str:
    method = METHODS[rank]
    _undisturbed(work, method)
    step = rng.randint(25, 100)
    process = _start(place, _words(work, place, "run", method), NAN_ON=str(rank), NAN_IN=str(step))
    told, end = place / "said.txt", time.monotonic() + 300
    while process.poll() is None and "metadrift run: " not in told.read_text(errors="replace"):
        expect(time.monotonic() < end, "it did not come to the step")
        time.sleep(0.05)
    code = _end(process, place, WITHIN)  # from the moment that one rank has said why
    expect(code != 0, "it ended as if nothing had happened")
    said = _one_message(place, f"at step {step}")
    return f"{shortened(said)}; {_both_ways(work, place, place / 'run', method)}"


def _one_message(place: Path, says: str) -> str:
    """What the ranks said: one of them one line, and none a traceback. torchrun says more."""
    said = (place / "said.txt").read_text(errors="replace")
    if f'File "{WORKER}"' in said:
        raise FailedError("traceback", said[-1500:])
    ours = [line for line in said.splitlines() if line.startswith("metadrift run: ")]
    expect(len(ours) == 1 and says in ours[0], f"said: {ours} {said[-500:]}")
    return ours[0]


def _flip(work: Workshop, place: Path, rng: random.Random, rank: int) -> str:
    """The checkpoint before it is taken, and that is said; rank 1 saves its part of the memory."""
    whole = _undisturbed(work, "m2d3-pets")
    run = Path(shutil.copytree(whole, place / "run"))
    (run / "summary.json").unlink()
    *_, before, newest = checkpoints(run / "checkpoints")
    file = newest / ("shard-1.safetensors" if rank else "tensors.safetensors")
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)
    code = _end(_start(place, ["resume", run]), place, 600)
    said = (place / "said.txt").read_text(errors="replace")
    if code:
        raise FailedError("lost", said[-800:])
    expect(f"going on from the one before it, {before.name.replace('-', ' ')}" in said, said[-800:])
    try:
        assert_same_run(whole, run)
    except AssertionError as error:
        raise FailedError("lost", str(error)[:300]) from None
    return f"from {before.name} to the same bytes on two ranks"


def _both_ways(work: Workshop, place: Path, run: Path, method: str) -> str:
    """From its last checkpoint: the same bytes on two ranks, to rounding the same losses on one.

    Replay is dealt out to the ranks, so with it other batches are drawn on one.
    """
    step = steps_of(checkpoints(run / "checkpoints"))[-1]
    alone = Path(shutil.copytree(run, place / "alone"))
    process = _start(place, ["resume", run, "--json"])
    code = _end(process, place, 600)
    said = (place / "said.txt").read_text(errors="replace")
    refuse_traceback(code, said)
    if code:
        raise FailedError("lost", f"resume on two ranks: {said[-800:]}")
    try:
        assert_same_run(_undisturbed(work, method), run)
    except AssertionError as error:
        raise FailedError("lost", f"two ranks: {str(error)[:300]}") from None
    code, said = work.resume(alone)
    if code:
        raise FailedError("lost", f"resume on one rank: {said[-800:]}")
    one, two = (
        {line["step"]: line["loss"] for line in read_lines(folder / "metrics.jsonl")}
        for folder in (alone, _undisturbed(work, method))
    )
    expect(one.keys() == two.keys(), f"steps {sorted(two.keys() - one.keys())} are missing")
    apart = max(abs(one[s] / two[s] - 1) for s in two)
    if (not apart <= 1e-4 and method == "sequential") or not np.isfinite(list(one.values())).all():
        raise FailedError("lost", f"on one rank the losses are {apart:g} apart")
    near = f", within {apart:.1g} on one" if method == "sequential" else ""
    return f"from step {step} to the same bytes on two ranks{near}"
