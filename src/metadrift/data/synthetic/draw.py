"""What decides the bytes of a built-in pack, and drawing some of its classes.

`python -m metadrift.data.synthetic.draw` draws for another process and writes the bytes to stdout.
"""

from __future__ import annotations

import hashlib
import importlib
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from metadrift.data.pack import Split
from metadrift.errors import MetadriftError, UsageError

BUILTIN = ("sketches", "textures", "glyphs", "creatures", "silhouettes", "badges")
VERSION = 1  # raised whenever a picture changes, so that old caches are not used
CLASSES, IMAGES = 100, 40


@dataclass(frozen=True)
class Recipe:
    """What decides the bytes of a pack, together with its name.

    Examples
    --------
    >>> Recipe(size=28).folder, Recipe(size=84, seed=3, classes=20, images=6).folder
    ('28px-seed0', '84px-seed3-20x6')
    >>> splits = Recipe(28).splits()
    >>> [splits.count(split) for split in ("train", "val", "test")]
    [60, 16, 24]
    """

    size: int
    seed: int = 0
    classes: int = CLASSES
    images: int = IMAGES

    def __post_init__(self) -> None:
        if not 8 <= self.size <= 512:
            raise UsageError(f"built-in images are 8 to 512 pixels wide, not {self.size}")
        if self.seed < 0:
            raise UsageError(f"a seed is 0 or more, not {self.seed}")
        if not 1 <= self.classes <= CLASSES or self.images < 1:
            raise UsageError(
                f"a built-in domain has 1 to {CLASSES} classes of at least 1 image, "
                f"not {self.classes} of {self.images}"
            )

    @property
    def folder(self) -> str:
        usual = (self.classes, self.images) == (CLASSES, IMAGES)
        return f"{self.size}px-seed{self.seed}" + (
            "" if usual else f"-{self.classes}x{self.images}"
        )

    def source(self, name: str) -> str:
        """Everything that decides the bytes of the pack of this name."""
        tools = _tools(name)
        return f"metadrift built-in, version {VERSION}, {self.folder}{tools and f', {tools}'}"

    def cached(self, name: str) -> str:
        """The pack's folder in the cache; packs of different bytes have different ones."""
        tools = _tools(name)
        return f"{name}-{hashlib.sha256(tools.encode()).hexdigest()[:12]}" if tools else name

    def splits(self) -> list[Split]:
        """60 % of the classes for training, 16 % for validation, the rest for the test."""
        train, val = round(0.6 * self.classes), round(0.16 * self.classes)
        counts: tuple[tuple[Split, int], ...] = (
            ("train", train),
            ("val", val),
            ("test", self.classes - train - val),
        )
        return [split for split, count in counts for _ in range(count)]


def _tools(name: str) -> str:
    """What a domain is drawn with apart from our code and numpy; only the glyphs need more."""
    module = importlib.import_module(f"metadrift.data.synthetic.{name}")
    return str(module.drawn_with()) if hasattr(module, "drawn_with") else ""


def draw(name: str, recipe: Recipe, numbers: Iterable[int]) -> list[NDArray[np.uint8]]:
    """Some classes of a domain: uint8 [images, size, size, C] each."""
    module = importlib.import_module(f"metadrift.data.synthetic.{name}")
    seed = [VERSION, recipe.seed, BUILTIN.index(name)]
    return [
        module.draw_class(n, np.random.default_rng([*seed, n]), recipe.images, recipe.size)
        for n in numbers
    ]


def draw_elsewhere(name: str, recipe: Recipe, numbers: range) -> list[NDArray[np.uint8]]:
    """The same in another process.

    multiprocessing would run the caller's script again in each process, and a script that asks
    for a pack outside `if __name__ == "__main__"` would wait for itself.
    """
    words = [sys.executable, "-m", __name__, name]
    words += [str(number) for number in (*astuple(recipe), numbers.start, numbers.stop)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise MetadriftError(
            f"the process that drew {name!r} ended with code {done.returncode}: "
            f"{last[0] if last else 'it was killed'}; fewer workers need less memory"
        )
    pixels = np.frombuffer(done.stdout, np.uint8)
    return list(pixels.reshape(len(numbers), recipe.images, recipe.size, recipe.size, -1))


def _draw_to_stdout(name: str, *numbers: str) -> None:
    *recipe, first, stop = map(int, numbers)
    for images in draw(name, Recipe(*recipe), range(first, stop)):
        sys.stdout.buffer.write(images.data)


if __name__ == "__main__":
    _draw_to_stdout(*sys.argv[1:])
