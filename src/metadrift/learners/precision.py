"""The number type of a learner's activations: float32, or bfloat16 where that is faster."""

from __future__ import annotations

import copy
import statistics
import time
from typing import Literal

import torch

from metadrift.errors import UsageError
from metadrift.learners.base import MetaLearner, Precision
from metadrift.tasks import TaskBatch, TaskGeometry

PrecisionChoice = Literal["auto", "float32", "bf16"]
_ROUNDS = 5
_WORTH_IT = 1.05  # `auto` takes bf16 only if it is at least this many times as fast as float32


def resolve_precision(
    choice: PrecisionChoice, learner: MetaLearner, ways: int
) -> tuple[Precision, str]:
    """The precision to use, and a sentence that explains it to the user.

    `auto` takes bf16 if the device computes with bfloat16 in hardware and a few training passes of
    this learner are faster with it. The learner itself is not changed.

    Examples
    --------
    >>> from metadrift.learners import make_learner
    >>> learner = make_learner("protonet", image_size=8, ways=2, filters=4, generator=0)
    >>> resolve_precision("bf16", learner, ways=2)
    ('bf16', 'precision bf16')
    """
    if choice != "auto":
        if choice not in ("float32", "bf16"):
            raise UsageError(f"precision must be auto, float32 or bf16, not {choice!r}")
        return choice, f"precision {choice}"
    device = learner.like.device
    if not computes_bf16(device):
        return "float32", f"precision float32: this {device.type} has no bfloat16 arithmetic"
    speed = bf16_speed(learner, ways)
    chosen: Precision = "bf16" if speed > _WORTH_IT else "float32"
    return chosen, f"precision {chosen}: bf16 is {speed:.2f} times as fast as float32 here"


def computes_bf16(device: torch.device) -> bool:
    """True if the device multiplies bfloat16 numbers in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    asked = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # torch has no public function
    return bool(asked and asked())


def bf16_speed(learner: MetaLearner, ways: int) -> float:
    """How many times as fast bf16 is as float32: the median over some rounds of training passes."""
    tried = copy.deepcopy(learner).train()
    geometry = TaskGeometry(ways, shots=1, queries=2)
    blank = learner.example.blank(1, geometry.images_per_task)
    examples = torch.arange(blank.numel()).remainder(251).to(blank.dtype).view(blank.shape)
    tasks = TaskBatch(examples, geometry).to(learner.like.device)

    def seconds(precision: Precision) -> float:
        tried.precision = precision
        begin = time.perf_counter()
        loss = tried(tasks).loss.sum()
        loss.backward()
        loss.item()  # wait until a GPU has finished
        return time.perf_counter() - begin

    order: tuple[Precision, ...] = ("float32", "bf16")
    rounds = [[seconds(precision) for precision in order] for _ in range(1 + _ROUNDS)]
    return statistics.median(full / mixed for full, mixed in rounds[1:])
