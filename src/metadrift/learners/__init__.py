"""Meta-learners: a TaskBatch in; loss, query logits, embedding and importance of every task out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args

import torch
from torch import nn

from metadrift.errors import UsageError
from metadrift.learners.anil import ANIL
from metadrift.learners.backbones import ConvNet, blocks_for
from metadrift.learners.base import MetaLearner, Precision, pick_device
from metadrift.learners.classes import class_means, class_shares
from metadrift.learners.importance import task_gradients
from metadrift.learners.maml import MAML
from metadrift.learners.normalisation import Normalisation, frozen_statistics
from metadrift.learners.outcome import Outcome
from metadrift.learners.protonet import ProtoNet
from metadrift.learners.ridge import Ridge
from metadrift.randomness import Purpose, torch_generator

__all__ = [
    "LEARNERS",
    "MetaLearner",
    "Outcome",
    "class_means",
    "class_shares",
    "frozen_statistics",
    "make_learner",
    "pick_device",
    "task_gradients",
]

# name: (class, most blocks, filters, whether it has a head of fixed ways)
LEARNERS: dict[str, tuple[Callable[..., MetaLearner], int, int, bool]] = {
    "protonet": (ProtoNet, 5, 64, False),
    "anil": (ANIL, 4, 48, True),
    "maml": (MAML, 4, 48, True),
    "ridge": (Ridge, 4, 64, False),
}


def make_learner(
    name: str,
    *,
    image_size: int,
    ways: int,
    generator: torch.Generator | int,
    normalisation: Normalisation = "batch",
    backbone: nn.Module | None = None,
    filters: int | None = None,
    precision: Precision = "float32",
    **options: Any,
) -> MetaLearner:
    """A learner by name: protonet, anil, maml or ridge.

    Parameters
    ----------
    image_size
        H = W of the images, in pixels.
    ways
        Classes a task; the head of anil and maml has this many outputs, the others take any.
    generator
        Where the weights are drawn from: a torch.Generator, or a seed for a new one.
    normalisation
        `batch` (the task's own statistics) or `running` (averages in evaluation mode).
    backbone
        A custom module, [B, 3, H, W] to [B, D]; it keeps its weights.
    filters
        Width of the built-in backbone; the paper has 64 for protonet and 48 for anil.
    precision
        `float32`, or `bf16` for activations in bfloat16. Weights, statistics, losses and whatever
        comes after the network are float32 in both.
    options
        What else the learner takes, such as `inner_steps` of anil.
    """
    if name not in LEARNERS:
        raise UsageError(f"there is no learner {name!r}; there are {', '.join(LEARNERS)}")
    if precision not in get_args(Precision):
        raise UsageError(f"precision must be float32 or bf16, not {precision!r}")
    if isinstance(generator, int):
        generator = torch_generator(generator, Purpose.WEIGHTS)
    kind, blocks, usual, has_head = LEARNERS[name]
    if backbone is None:
        depth = blocks_for(image_size, blocks)
        backbone = ConvNet(depth, filters or usual, normalisation, generator)
    elif filters is not None:
        raise UsageError("filters is the width of the built-in backbone; one was handed in")
    elif kind is MAML and normalisation == "running":
        # Its copies run under vmap, where no average over tasks can be kept.
        raise UsageError("maml with a backbone of one's own needs normalisation='batch'")
    known = inspect.signature(kind).parameters
    for option in options:
        if option not in known:
            raise UsageError(f"{name} has no option {option!r}")
    if has_head:
        options |= {"ways": ways, "generator": generator}
    learner = kind(backbone, image_size, normalisation, **options)
    learner.precision = precision
    return learner
