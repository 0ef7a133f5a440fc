"""The kinds of examples: pictures, and arrays of floats such as vectors of features.

Everything that depends on the kind of example is here: its form in a pack and in a task, and how it
enters a network. Code that works only for pictures calls `as_pictures`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from metadrift.errors import MetadriftError, UsageError

if TYPE_CHECKING:  # the processes of an import draw and decode without torch
    from torch import Tensor

FloatType = Literal["float16", "float32"]
FLOAT_TYPES: tuple[FloatType, ...] = get_args(FloatType)
_MOST_DIMENSIONS, _MOST_NUMBERS = 8, 1 << 28


@dataclass(frozen=True)
class ExampleKind(ABC):
    """The shape and type that all examples of a stream share.

    Parameters
    ----------
    shape
        Of an example in a task.
    dtype
        In packs, in tasks and in memory: uint8, float16 or float32.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    @abstractmethod
    def stored_shape(self) -> tuple[int, ...]:
        """Of an example in a pack."""

    @property
    @abstractmethod
    def numbers_in_network(self) -> int:
        """About how many numbers a network keeps for an example, to size evaluation batches."""

    @abstractmethod
    def from_pack(self, block: np.ndarray) -> Tensor:
        """[..., *stored_shape] to [..., *shape], without a copy."""

    @abstractmethod
    def to_network(self, *parts: Tensor, like: Tensor) -> Tensor:
        """[T, N, *shape] to floats [T*N, ...] of the type of `like`.

        Several such tensors go side by side: N is then the sum of theirs.
        """

    @abstractmethod
    def as_pictures(self, asker: str) -> Pictures:
        """This kind as pictures. Otherwise raises an error that names the caller."""

    @abstractmethod
    def __str__(self) -> str:
        """In a sentence: `colour pictures of 28 px`."""

    def holds(self, other: ExampleKind) -> bool:
        """True if examples of the other kind can be drawn as this kind."""
        return self == other

    def blank(self, tasks: int, examples: int) -> Tensor:
        """Examples of zeros: [tasks, examples, *shape]."""
        import torch

        shape = (tasks, examples, *self.shape)
        return torch.zeros(shape, dtype=getattr(torch, self.dtype))

    def as_table(self) -> dict[str, Any]:
        """For JSON; `kind_of_table` reads it."""
        return {"dtype": self.dtype, "shape": list(self.shape)}


class Pictures(ExampleKind):
    """Square uint8 pictures: [channels, size, size] in tasks, [size, size, channels] in packs.

    Examples
    --------
    >>> print(Pictures(28))
    colour pictures of 28 px
    >>> Pictures(28, channels=1).shape
    (1, 28, 28)
    """

    def __init__(self, size: int, channels: int = 3) -> None:
        if channels not in (1, 3):
            raise UsageError(f"channels must be 1 or 3, not {channels}")
        if size < 1:
            raise UsageError(f"pictures must have at least 1 px, not {size}")
        super().__init__((channels, size, size), "uint8")

    @property
    def size(self) -> int:
        return self.shape[1]

    @property
    def channels(self) -> int:
        return self.shape[0]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self.size, self.size, self.channels

    @property
    def numbers_in_network(self) -> int:
        return 64 * self.size**2

    def from_pack(self, block: np.ndarray) -> Tensor:
        """Grey pictures become colour pictures, as a view, where this kind has 3 channels."""
        if block.shape[-1] > self.channels:
            raise MetadriftError("pictures in colour cannot be drawn as grey")
        import torch

        images = torch.from_numpy(block).movedim(-1, -3)
        return images.expand(*images.shape[:-3], *self.shape)

    def to_network(self, *parts: Tensor, like: Tensor) -> Tensor:
        """uint8 to floats in [-1, 1]: [T*N, 3, H, W], the channels innermost; grey is repeated."""
        import torch

        for part in parts:
            self._check(part)
        N = [part.shape[1] for part in parts]
        # Channels innermost is how packs store pictures and how the CPU convolves fastest; grey is
        # repeated by the same copy that changes the type.
        pixels = like.new_empty((len(parts[0]), sum(N), self.size, self.size, 3))
        for part, place in zip(parts, torch.split(pixels, N, 1), strict=True):
            place.copy_(part.permute(0, 1, 3, 4, 2).expand_as(place))
        return pixels.mul_(1 / 127.5).sub_(1).flatten(0, 1).permute(0, 3, 1, 2)

    def as_pictures(self, asker: str) -> Pictures:
        return self

    def holds(self, other: ExampleKind) -> bool:
        same_size = isinstance(other, Pictures) and self.size == other.size
        return same_size and self.channels >= other.shape[0]

    def __str__(self) -> str:
        return f"{'colour' if self.channels == 3 else 'grey'} pictures of {self.size} px"

    def _check(self, images: Tensor) -> None:
        if type_name(images) != "uint8":
            raise MetadriftError(f"images must be uint8 (0..255), not {images.dtype}")
        if images.ndim != 5 or not images.shape[3] == images.shape[4] == self.size:
            found = " x ".join(map(str, images.shape[3:]))
            raise MetadriftError(f"the learner was made for images of {self.size} px, not {found}")


class Arrays(ExampleKind):
    """Floats of any shape: vectors of features, spectrograms, sensor windows.

    Examples
    --------
    >>> print(Arrays((512,)), Arrays((3, 40), "float16"), sep=", ")
    float32 vectors of 512, float16 arrays of 3 x 40
    """

    def __init__(self, shape: Sequence[int], dtype: FloatType = "float32") -> None:
        if not 1 <= len(shape) <= _MOST_DIMENSIONS or min(shape) < 1:
            raise UsageError(f"an example must have 1 to 8 dimensions, not {list(shape)}")
        if math.prod(shape) > _MOST_NUMBERS:
            raise UsageError(f"an example of {list(shape)} has more than 2^28 numbers")
        if dtype not in FLOAT_TYPES:
            raise UsageError(f"examples must be float16 or float32, not {dtype}")
        super().__init__(tuple(shape), dtype)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def numbers_in_network(self) -> int:
        return 4 * math.prod(self.shape) + 4096

    def from_pack(self, block: np.ndarray) -> Tensor:
        import torch

        return torch.from_numpy(block)

    def to_network(self, *parts: Tensor, like: Tensor) -> Tensor:
        import torch

        for part in parts:
            if part.shape[2:] != self.shape or not part.is_floating_point():
                raise MetadriftError(
                    f"the learner was made for {self}, not {type_name(part)} {list(part.shape[2:])}"
                )
        return torch.cat([part.to(like) for part in parts], 1).flatten(0, 1)

    def as_pictures(self, asker: str) -> Pictures:
        raise UsageError(f"{asker} is for pictures, and these examples are {self}")

    def __str__(self) -> str:
        what = "vectors" if len(self.shape) == 1 else "arrays"
        return f"{self.dtype} {what} of {' x '.join(map(str, self.shape))}"


def kind_of_table(table: Mapping[str, Any]) -> ExampleKind:
    """The kind of a table that `as_table` made."""
    shape = tuple(int(side) for side in table["shape"])
    if table["dtype"] == "uint8":
        return Pictures(shape[1], shape[0])
    return Arrays(shape, table["dtype"])


def kind_of_stored(examples: np.ndarray) -> ExampleKind:
    """The kind of the examples in an array [n, *stored_shape].

    Examples
    --------
    >>> print(kind_of_stored(np.zeros((5, 28, 28, 1), np.uint8)))
    grey pictures of 28 px
    """
    shape, dtype = examples.shape[1:], examples.dtype
    if dtype == np.uint8 and len(shape) == 3 and shape[2] in (1, 3):
        if shape[0] != shape[1]:
            raise MetadriftError(f"pictures of a pack must be square, not {list(shape)}")
        return Pictures(shape[0], shape[2])
    for float_type in FLOAT_TYPES:
        if dtype == np.dtype(float_type) and shape:
            return Arrays(shape, float_type)
    raise MetadriftError(
        f"examples must be uint8 [n, H, W, 1 or 3] or float16 or float32 [n, ...], "
        f"not {dtype} {list(examples.shape)}"
    )


def common_kind(kinds: Mapping[str, ExampleKind], where: str) -> ExampleKind:
    """One kind for examples of several domains: colour if one of them is in colour.

    Examples
    --------
    >>> common_kind({"a": Pictures(28, 1), "b": Pictures(28, 3)}, "mine")
    Pictures(shape=(3, 28, 28), dtype='uint8')
    """
    for kind in kinds.values():
        if all(kind.holds(other) for other in kinds.values()):
            return kind
    listed = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
    raise MetadriftError(
        f"the packs of {where} differ in image size or in the shape or type of their examples "
        f"({listed}); import them alike, pictures with one --size, into one data folder"
    )


def check_examples(examples: Tensor) -> None:
    """Raise if an array cannot hold the examples of tasks: [T, N, *example]."""
    dtype = type_name(examples)
    if dtype in FLOAT_TYPES:
        if examples.ndim < 3:
            raise MetadriftError(
                f"task examples must be [tasks, examples, ...], not {list(examples.shape)}"
            )
    elif dtype != "uint8":
        raise MetadriftError(
            f"task images must be uint8 (0..255), other examples float16 or float32, "
            f"not {examples.dtype}"
        )
    elif examples.ndim != 5 or examples.shape[2] not in (1, 3):
        raise MetadriftError(
            "task images must be [tasks, images, channels (1 or 3), height, width], "
            f"not {list(examples.shape)}"
        )


def as_kind(kind: ExampleKind | int | Sequence[int]) -> ExampleKind:
    """A kind; a number stands for colour pictures of that size, a shape for float32 arrays.

    Examples
    --------
    >>> as_kind((512,))
    Arrays(shape=(512,), dtype='float32')
    """
    if isinstance(kind, ExampleKind):
        return kind
    return Pictures(kind) if isinstance(kind, int) else Arrays(tuple(kind))


def type_name(examples: Tensor) -> str:
    """uint8, float16 and so on."""
    return str(examples.dtype).removeprefix("torch.")
