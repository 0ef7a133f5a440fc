"""Backbones by name: conv4, conv5, resnet12, mlp, identity, and custom ones.

A backbone by name is a callable that returns a module. It may take any of these arguments:
`example` (the kind of examples), `filters` (the requested width, or None), `normalisation`,
`generator`, `learner` (the class of the learner) and `options`.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from metadrift import registry
from metadrift.errors import UsageError
from metadrift.examples import ExampleKind, Pictures
from metadrift.learners.backbones import ConvNet, blocks_for
from metadrift.learners.normalisation import Normalisation
from metadrift.randomness import global_torch_seed

if TYPE_CHECKING:
    from metadrift.learners.base import MetaLearner

_WIDTHS = {"resnet12": 64, "mlp": 256}
_MLP_SCALE = 20.0  # as far apart as unit vectors should be for a softmax over squared distances


def usual_backbone(learner: type[MetaLearner], example: ExampleKind) -> str:
    """The default backbone of a learner."""
    if not isinstance(example, Pictures):
        return "mlp"
    return "conv5" if blocks_for(example.size, learner.most_blocks) == 5 else "conv4"


def usual_width(backbone: str, learner: type[MetaLearner]) -> int | None:
    """The default width of a built-in backbone; None if it has no width."""
    if backbone in ("conv4", "conv5"):
        return learner.usual_filters
    return _WIDTHS.get(backbone)


def find_backbone(name: str) -> Callable[..., nn.Module]:
    """The class or function that makes the backbone of a name or a reference."""
    found = registry.find("backbones", name)
    if not callable(found):
        raise UsageError(f"{name} is not a class or function that gives a module")
    make: Callable[..., nn.Module] = found
    return make


def make_backbone(
    name: str,
    *,
    example: ExampleKind,
    learner: type[MetaLearner],
    generator: Generator,
    normalisation: Normalisation,
    filters: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A backbone by name or reference, its weights drawn by `generator`."""
    make = find_backbone(name)
    takes = inspect.signature(make).parameters
    if filters is not None and "filters" not in takes:
        raise UsageError(f"the backbone {name} has no width to set: leave --learn.filters out")
    every: dict[str, Any] = {
        "example": example,
        "filters": filters,
        "normalisation": normalisation,
        "generator": generator,
        "learner": learner,
        "options": registry.own_options(make, options or {}),  # type: ignore[arg-type]
    }
    for word, taken in takes.items():
        many = taken.kind in (taken.VAR_POSITIONAL, taken.VAR_KEYWORD)
        if word not in every and taken.default is taken.empty and not many:
            raise UsageError(
                f"the backbone {name} asks for {word!r}; it can have {', '.join(every)}"
            )
    given = {word: value for word, value in every.items() if word in takes}
    with global_torch_seed(generator):  # a custom module draws its first weights globally
        made = make(**given)
    if not isinstance(made, nn.Module):
        raise UsageError(f"{name} gave {type(made).__name__}; a backbone is a torch.nn.Module")
    return made


def conv4(
    example: ExampleKind,
    filters: int | None,
    normalisation: Normalisation,
    generator: Generator,
    learner: type[MetaLearner],
    blocks: int = 4,
) -> ConvNet:
    """Four blocks of 3x3 convolution, normalisation, ReLU and pooling; fewer for tiny pictures."""
    size = example.as_pictures(f"the backbone conv{blocks}").size
    most = 5 if blocks == 5 else learner.most_blocks
    depth = min(blocks, most if size >= 32 else blocks_for(size, most))
    return ConvNet(depth, filters or learner.usual_filters, normalisation, generator)


def conv5(
    example: ExampleKind,
    filters: int | None,
    normalisation: Normalisation,
    generator: Generator,
    learner: type[MetaLearner],
) -> ConvNet:
    """Five such blocks."""
    return conv4(example, filters, normalisation, generator, learner, blocks=5)


class ResNet12(nn.Module):
    """Four residual blocks of three convolutions, the widest network in few-shot papers.

    `filters` is the width of the first block (64); the others have 2.5, 5 and 10 times as many.
    There is no DropBlock.

    References
    ----------
    Lee, Maji, Ravichandran, Soatto: Meta-learning with differentiable convex optimization, 2019.

    Examples
    --------
    >>> from metadrift.examples import Pictures
    >>> net = ResNet12(Pictures(28), 4, torch.Generator().manual_seed(0))
    >>> tuple(net(torch.zeros(2, 3, 28, 28)).shape)
    (2, 40)
    """

    def __init__(self, example: ExampleKind, filters: int | None, generator: Generator) -> None:
        super().__init__()
        example.as_pictures("the backbone resnet12")
        first = filters or _WIDTHS["resnet12"]
        widths = [3, first, round(2.5 * first), 5 * first, 10 * first]
        self.blocks = nn.Sequential(*(_Residual(a, b) for a, b in itertools.pairwise(widths)))
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(
                    layer.weight,
                    0.1,
                    mode="fan_out",
                    nonlinearity="leaky_relu",
                    generator=generator,
                )

    def forward(self, images: Tensor) -> Tensor:
        """[B, 3, H, W] to [B, D]."""
        found: Tensor = self.blocks(images)
        return found.mean((2, 3))


class _Residual(nn.Module):
    def __init__(self, inputs: int, filters: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for first in (inputs, filters, filters):
            layers += [nn.Conv2d(first, filters, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(filters), nn.LeakyReLU(0.1)]
        self.layers = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Sequential(
            nn.Conv2d(inputs, filters, 1, bias=False), nn.BatchNorm2d(filters)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = F.leaky_relu(self.layers(x) + self.shortcut(x), 0.1)
        return F.max_pool2d(y, 2) if min(y.shape[2:]) > 1 else y


class MLP(nn.Module):
    """The example as a vector of length 1, plus what a hidden layer adds to it, times a number.

    The hidden layer adds nothing at first. So a learner starts from distances by cosine, which suit
    the features of other models, and goes on from there. No layer looks at other examples.

    Parameters
    ----------
    example
        The kind of examples. Arrays are read as one long vector.
    filters
        The width of the hidden layer, by default 256.
    generator
        The random generator for the weights.

    Examples
    --------
    >>> from metadrift.examples import Arrays
    >>> net = MLP(Arrays((2, 2)), 8, torch.Generator().manual_seed(0))
    >>> net(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])).round().tolist()
    [[12.0, 0.0, 0.0, 16.0]]
    """

    def __init__(self, example: ExampleKind, filters: int | None, generator: Generator) -> None:
        super().__init__()
        shape = (3, *example.shape[1:]) if isinstance(example, Pictures) else example.shape
        size, width = math.prod(shape), filters or _WIDTHS["mlp"]
        self.hidden = nn.Linear(size, width)
        self.out = nn.Linear(width, size, bias=False)
        self.log_scale = nn.Parameter(torch.tensor(math.log(_MLP_SCALE)))
        nn.init.normal_(self.hidden.weight, std=(2 / size) ** 0.5, generator=generator)
        nn.init.zeros_(self.hidden.bias)
        nn.init.zeros_(self.out.weight)

    def forward(self, examples: Tensor) -> Tensor:
        """[B, *example] to [B, D], D the numbers of an example."""
        x = F.normalize(examples.flatten(1), eps=1e-6)
        found: Tensor = self.log_scale.exp() * (x + self.out(F.relu(self.hidden(x))))
        return found


class Identity(nn.Module):
    """The examples themselves as one vector each: for heads on features made elsewhere."""

    def forward(self, examples: Tensor) -> Tensor:
        """[B, *example] to [B, D]."""
        return examples.flatten(1)
