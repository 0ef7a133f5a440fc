"""Contenders that take turns: whatever else the machine does then falls on all alike.

`in_turns` times functions of this process. `processes_in_turns` gives each contender a process of
its own, where threads, memory or installed packages differ; such a process ends its start with
`serve` of learner_peers.py. Ratios are medians of the ratios within each round.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Told:
    """What a contender's process said: an answer a round, and a last word; or why it failed."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)
    failed: str = ""

    def all(self, name: str = "ms") -> list[float]:
        if self.failed:
            raise SystemExit(f"a contender failed that the others are compared with: {self.failed}")
        return [float(answer[name]) for answer in self.answers]


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median, over the rounds, of one contender's time in another's."""
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def bf16_ratio(full: Sequence[float], mixed: Sequence[float]) -> tuple[float | None, str]:
    """float32's time in that of bf16, and a note; no ratio where the CPU has no bfloat16."""
    from metadrift.learners.precision import computes_bf16

    if not computes_bf16(torch.device("cpu")):
        return None, "this CPU has no bfloat16 arithmetic"
    return ratio(
        full, mixed
    ), f"bf16 {statistics.median(mixed):.3g} of {statistics.median(full):.3g}"


def in_turns(
    works: dict[str, Callable[[], object]], rounds: int, warm: int = 1
) -> dict[str, list[float]]:
    """Seconds of each work in each round; the first `warm` rounds do not count."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(warm + rounds):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            spent = time.perf_counter() - begin
            if turn >= warm:
                seconds[name].append(spent)
    return seconds


def processes_in_turns(
    commands: dict[str, list[str]], rounds: int, warm: int = 3
) -> dict[str, Told]:
    """One step of each process in turn; a process that fails says so and is left out from then."""
    told = {name: Told() for name in commands}
    running: dict[str, subprocess.Popen[str]] = {}
    with tempfile.TemporaryFile("w+") as errors, ExitStack() as at_the_end:
        for name, command in commands.items():
            running[name] = at_the_end.enter_context(_start(command, errors))
            at_the_end.callback(running[name].kill)
            if _line(running[name]) != "ready":
                told[name].failed = _reason(errors)
        for turn in range(warm + rounds):
            for name, process in running.items():
                if told[name].failed:
                    continue
                answer = _ask(process)
                if answer is None:
                    told[name].failed = _reason(errors)
                elif turn >= warm:
                    told[name].answers.append(answer)
        for name, process in running.items():
            if not told[name].failed:
                told[name].end = json.loads(process.communicate()[0].splitlines()[-1])
    return told


def _start(command: list[str], errors: Any) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)


def _ask(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    assert process.stdin is not None
    try:
        process.stdin.write("step\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    line = _line(process)
    return json.loads(line) if line else None


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _reason(errors: Any) -> str:
    errors.seek(0)
    lines = [line for line in errors.read().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it ended without a word"
