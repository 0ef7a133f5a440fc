"""Making the built-in domains: once, into the user's cache folder, in parallel processes."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from metadrift.domains.builtin.lock import folder_lock
from metadrift.domains.pack import Pack, Split, open_pack, write_pack
from metadrift.errors import MetadriftError, UsageError

BUILTIN = ("sketches", "textures", "glyphs", "creatures", "silhouettes", "badges")
VERSION = 1  # goes up whenever a picture changes, so that an old cache is not taken for a new one
CLASSES, IMAGES = 100, 40


def builtin_pack(
    name: str,
    size: int = 28,
    seed: int = 0,
    folder: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Pack:
    """A built-in domain by name, made now if it is not in the cache yet.

    `folder` is where the packs lie, `folder/name` each; without it, the user's cache folder (or
    the one that METADRIFT_CACHE names).
    """
    return ensure_builtin([name], size, seed, progress=progress, folder=folder)[0]


def ensure_builtin(
    names: Sequence[str] = BUILTIN,
    size: int = 28,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
    *,
    folder: Path | str | None = None,
    classes: int = CLASSES,
    images: int = IMAGES,
) -> list[Pack]:
    """The packs of these names, those that are missing made by `workers` processes at once
    (1 stays in this process; without it one a core).

    Any number of programs may ask at the same time: one makes the packs, the others wait for it.
    `progress` is told how many classes more are there, of len(names) * classes in all.
    """
    recipe = Recipe(size, seed, classes, images)
    unknown = [name for name in names if name not in BUILTIN]
    if unknown:
        raise UsageError(f"there is no built-in domain {unknown[0]!r}: {', '.join(BUILTIN)}")
    if workers is not None and workers < 1:
        raise UsageError(f"the packs need at least 1 worker, not {workers}")
    home = cache_folder() / recipe.folder if folder is None else Path(folder)
    if _missing(home, names):
        with folder_lock(home):
            # Whoever held the lock before may have made them, or have died half way.
            if missing := _missing(home, names):
                _sweep(home, missing)
                _make(home, missing, recipe, workers or os.cpu_count() or 1, progress)
    return [_open(home / name, name, recipe) for name in names]


def cache_folder() -> Path:
    """Where the built-in packs of this version are kept."""
    chosen = os.environ.get("METADRIFT_CACHE")
    base = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("metadrift"))
    return base / "builtin" / f"v{VERSION}"


@dataclass(frozen=True)
class Recipe:
    """What decides the bytes of a pack, beside its name.

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

    @property
    def source(self) -> str:
        return f"metadrift built-in, version {VERSION}, {self.folder}"

    def splits(self) -> list[Split]:
        """60 % of the classes for training, 16 % for validation, the rest for the test."""
        train, val = round(0.6 * self.classes), round(0.16 * self.classes)
        counts: tuple[tuple[Split, int], ...] = (
            ("train", train),
            ("val", val),
            ("test", self.classes - train - val),
        )
        return [split for split, count in counts for _ in range(count)]


def draw(name: str, recipe: Recipe, numbers: Iterable[int]) -> list[NDArray[np.uint8]]:
    """Some classes of a domain: uint8 [images, size, size, C] each. Runs in a worker process."""
    module = importlib.import_module(f"metadrift.domains.builtin.{name}")
    domain = BUILTIN.index(name)
    return [
        module.draw_class(
            number,
            np.random.default_rng([VERSION, recipe.seed, domain, number]),
            recipe.images,
            recipe.size,
        )
        for number in numbers
    ]


def _missing(home: Path, names: Sequence[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if not (home / name).exists()]


def _make(
    home: Path,
    names: list[str],
    recipe: Recipe,
    workers: int,
    progress: Callable[[int], None] | None,
) -> None:
    chunks = [range(recipe.classes)[k : k + 5] for k in range(0, recipe.classes, 5)]
    if workers == 1:
        for name in names:
            _write(home, name, recipe, (draw(name, recipe, chunk) for chunk in chunks), progress)
        return
    # Spawned, not forked: a fork of a program with threads (torch) may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_die_with_parent) as pool:
        jobs = {
            name: [pool.submit(draw, name, recipe, chunk) for chunk in chunks] for name in names
        }
        try:
            for name in names:
                drawn = (job.result() for job in jobs.pop(name))
                _write(home, name, recipe, drawn, progress)
        except BrokenProcessPool:
            raise MetadriftError(
                f"a process that was drawing the built-in domains for {home} was killed; "
                "if memory is short, ask for fewer workers"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _write(
    home: Path,
    name: str,
    recipe: Recipe,
    drawn: Iterable[list[NDArray[np.uint8]]],
    progress: Callable[[int], None] | None,
) -> None:
    def rows() -> Iterator[tuple[str, Split, NDArray[np.uint8]]]:
        classes = itertools.chain.from_iterable(drawn)
        for number, (split, images) in enumerate(zip(recipe.splits(), classes, strict=True)):
            yield f"{name}-{number:03d}", split, images
            if progress:
                progress(1)

    write_pack(home / name, name, rows(), source=recipe.source, licence="CC0-1.0")


def _open(path: Path, name: str, recipe: Recipe) -> Pack:
    pack = open_pack(path)
    if (pack.name, pack.source) != (name, recipe.source):
        raise MetadriftError(
            f"{path} holds another pack ({pack.name!r} from {pack.source!r}, not {name!r} from "
            f"{recipe.source!r}); choose another folder or remove it"
        )
    return pack


def _sweep(home: Path, names: list[str]) -> None:
    """Remove what a killed program left of these packs; safe only under the lock."""
    for name in names:
        for leftover in home.glob(f".{name}.*"):
            shutil.rmtree(leftover, ignore_errors=True)


def _die_with_parent() -> None:
    """A worker whose parent is killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch(sentinel: int = parent.sentinel) -> None:
        multiprocessing.connection.wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
