"""Meta-learners: a TaskBatch in; loss, query logits, embedding and importance of every task out."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from textwrap import shorten
from typing import Any, get_args

import torch
from torch import nn

from metadrift import registry
from metadrift.errors import UsageError
from metadrift.examples import ExampleKind, Pictures, as_kind
from metadrift.learners.backbones import ConvNet
from metadrift.learners.base import MetaLearner, Precision, pick_device
from metadrift.learners.classes import class_means, class_shares
from metadrift.learners.importance import task_gradients
from metadrift.learners.maml import MAML
from metadrift.learners.networks import make_backbone, usual_backbone
from metadrift.learners.normalisation import Normalisation, frozen_statistics
from metadrift.learners.outcome import Outcome
from metadrift.randomness import Purpose, torch_generator

__all__ = [
    "MetaLearner",
    "Outcome",
    "class_means",
    "class_shares",
    "find_learner",
    "frozen_statistics",
    "make_learner",
    "pick_device",
    "task_gradients",
]


def make_learner(
    name: str | type[MetaLearner],
    *,
    image_size: int | None = None,
    example: ExampleKind | None = None,
    ways: int,
    generator: torch.Generator | int,
    normalisation: Normalisation = "batch",
    backbone: str | nn.Module | None = None,
    filters: int | None = None,
    precision: Precision = "float32",
    backbone_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> MetaLearner:
    """A learner by name (protonet, anil, maml or ridge), by reference or by its class.

    Parameters
    ----------
    image_size, example
        What the examples are: the side of pictures in pixels, or any kind of example.
    ways
        Classes per task. The head of anil and maml has this many outputs; the others take any.
    generator
        The random generator for the weights: a torch.Generator, or a seed for a new one.
    normalisation
        `batch` (the task's own statistics) or `running` (averages in evaluation mode).
    backbone
        conv4, conv5, resnet12, mlp, identity or a reference, by default what suits the learner and
        the examples. Or a custom module, [B, 3, H, W] (or [B, *example]) to [B, D]; it keeps its
        weights.
    filters
        Width of a backbone by name; the paper has 64 for protonet and 48 for anil.
    precision
        `float32`, or `bf16` for activations in bfloat16. Weights, statistics, losses and everything
        after the network are float32 in both.
    backbone_options
        Settings of a plug-in's own `Options`, where the backbone is one.
    options
        Other options of the learner, such as `inner_steps` of anil.
    """
    if precision not in get_args(Precision):
        raise UsageError(f"precision must be float32 or bf16, not {precision!r}")
    if isinstance(generator, int):
        generator = torch_generator(generator, Purpose.WEIGHTS)
    kind = find_learner(name)
    if example is None and image_size is None:
        raise UsageError("say what the examples are: image_size=, or example=")
    example = example or as_kind(image_size or 0)
    if backbone is None or isinstance(backbone, str):
        called = backbone or usual_backbone(kind, example)
        network = make_backbone(
            called,
            example=example,
            learner=kind,
            generator=generator,
            normalisation=normalisation,
            filters=filters,
            options=backbone_options,
        )
        if called not in registry.built_in("backbones"):
            _refuse_unfit(network, example)
    else:
        network = backbone
        if filters is not None:
            raise UsageError("filters sets the width of a backbone by name; leave it out here")
        _refuse_unfit(network, example)
    if issubclass(kind, MAML) and normalisation == "running" and not isinstance(network, ConvNet):
        # Its copies run under vmap, where no average over tasks can be kept.
        raise UsageError("maml with a backbone other than conv4 needs normalisation='batch'")
    known = inspect.signature(kind).parameters
    for option in options:
        if option not in known:
            raise UsageError(f"{kind.__name__} has no option {option!r}")
    if kind.has_head:
        options |= {"ways": ways, "generator": generator}
    make: Any = kind
    learner: MetaLearner = registry.call(make, network, example, normalisation, **options)
    learner.precision = precision
    return learner


def _refuse_unfit(backbone: nn.Module, example: ExampleKind) -> None:
    """Send two blank examples through a copy of a custom backbone."""
    if not isinstance(backbone, nn.Module):
        what = f"the class {backbone.__name__}" if isinstance(backbone, type) else repr(backbone)
        raise UsageError(f"backbone must be a torch module, such as MyNet(), not {what}")
    trial = copy.deepcopy(backbone).eval()
    blank = example.to_network(example.blank(1, 2), like=torch.empty(0))
    like = next(trial.parameters(), blank)
    try:
        with torch.no_grad():
            found = trial(blank.to(like))
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        why = shorten(str(error) or type(error).__name__, 160)
        what = "images" if isinstance(example, Pictures) else "examples"
        raise UsageError(f"the backbone cannot take {what} {list(blank.shape)}: {why}") from None
    if not isinstance(found, torch.Tensor) or found.ndim < 2 or len(found) != len(blank):
        shown = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise UsageError(f"the backbone must map {list(blank.shape)} to [2, D], not to {shown}")


def find_learner(name: str | type[MetaLearner]) -> type[MetaLearner]:
    """The class of a learner."""
    kind = registry.subclass("learners", name, MetaLearner)
    if kind.logits is MetaLearner.logits and kind.answer is MetaLearner.answer:
        raise UsageError(f"{kind.__name__} needs a method logits(support, labels, query, ways)")
    return kind
