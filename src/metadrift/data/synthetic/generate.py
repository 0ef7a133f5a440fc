"""Making the built-in domains: once, into the user's cache folder, in parallel processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from metadrift.data.pack import Pack, Split, open_pack, write_pack
from metadrift.data.synthetic.draw import (
    BUILTIN,
    CLASSES,
    IMAGES,
    VERSION,
    Recipe,
    draw,
    draw_elsewhere,
)
from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.lock import lock
from metadrift.storage.progress import Bar

PATIENCE = 3600.0  # seconds to wait for another program that makes the same packs


def builtin_pack(
    name: str,
    size: int = 28,
    seed: int = 0,
    folder: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Pack:
    """A built-in domain by name, made now if it is not in the cache yet.

    The packs are in `folder/name`; without `folder`, in the user's cache folder or the one that
    METADRIFT_CACHE names.
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
    """The packs of these names. Missing ones are made by `workers` processes.

    With 1 worker they are made in this process; without the argument there is one per core. Several
    programs may call this at the same time: one makes the packs, the others wait for it.
    `progress` gets the number of classes just drawn; without it, a bar or lines go to stderr.
    """
    recipe = Recipe(size, seed, classes, images)
    unknown = [name for name in names if name not in BUILTIN]
    if unknown:
        raise UsageError(f"there is no built-in domain {unknown[0]!r}: {', '.join(BUILTIN)}")
    if workers is not None and workers < 1:
        raise UsageError(f"the packs need at least 1 worker, not {workers}")
    home = cache_folder() / recipe.folder if folder is None else Path(folder)
    whole = _is_whole if folder is None else _is_there
    # In the cache, packs of different bytes have different folders.
    place = {name: home / (recipe.cached(name) if folder is None else name) for name in names}
    if any(not whole(place[name], name, recipe) for name in names):
        try:
            home.mkdir(parents=True, exist_ok=True)
            with lock(home / ".lock", f"the packs in {home} are being made", PATIENCE):
                # The program that held the lock may have made them, or may have been killed.
                missing = {n: p for n, p in place.items() if not whole(p, n, recipe)}
                _make_all(missing, recipe, workers or os.cpu_count() or 1, progress)
        except OSError as error:
            raise MetadriftError(
                f"{home} cannot be written: {error.strerror or error}; "
                "set METADRIFT_CACHE to another folder"
            ) from None
    return [_open(place[name], name, recipe) for name in names]


def cache_folder() -> Path:
    """Where the built-in packs of this version are kept."""
    chosen = os.environ.get("METADRIFT_CACHE")
    base = (
        Path(chosen) if chosen else Path(platformdirs.user_cache_dir("metadrift", appauthor=False))
    )
    return base / "builtin" / f"v{VERSION}"


def _is_there(path: Path, name: str, recipe: Recipe) -> bool:
    """In a folder that the user names, nothing is ever replaced."""
    return path.exists()


def _is_whole(path: Path, name: str, recipe: Recipe) -> bool:
    """In the cache, a damaged pack counts as missing and is made again."""
    try:
        _open(path, name, recipe)
    except MetadriftError:
        return False
    return True


def _make_all(
    names: dict[str, Path],
    recipe: Recipe,
    workers: int,
    progress: Callable[[int], None] | None,
) -> None:
    if not names:
        return
    total = len(names) * recipe.classes
    with Bar(f"drawing {', '.join(names)}", total, "classes", quiet=progress is not None) as bar:
        _make(names, recipe, workers, progress or bar.advance)


def _make(
    names: dict[str, Path],
    recipe: Recipe,
    workers: int,
    progress: Callable[[int], None],
) -> None:
    chunks = [range(recipe.classes)[k : k + 25] for k in range(0, recipe.classes, 25)]
    if workers == 1:
        for name in names:
            drawn = (images for n in range(recipe.classes) for images in draw(name, recipe, [n]))
            _write(names[name], name, recipe, drawn, progress)
        return
    with ThreadPoolExecutor(workers) as pool:
        jobs = {
            name: [pool.submit(draw_elsewhere, name, recipe, chunk) for chunk in chunks]
            for name in names
        }
        try:
            for name in names:
                drawn = (images for job in jobs.pop(name) for images in job.result())
                _write(names[name], name, recipe, drawn, progress)
        finally:
            pool.shutdown(cancel_futures=True)


def _write(
    path: Path,
    name: str,
    recipe: Recipe,
    drawn: Iterable[NDArray[np.uint8]],
    progress: Callable[[int], None],
) -> None:
    def rows() -> Iterator[tuple[str, Split, NDArray[np.uint8]]]:
        for number, (split, images) in enumerate(zip(recipe.splits(), drawn, strict=True)):
            yield f"{name}-{number:03d}", split, images
            progress(1)

    write_pack(path, name, rows(), source=recipe.source(name), licence="CC0-1.0", replace=True)


def _open(path: Path, name: str, recipe: Recipe) -> Pack:
    pack = open_pack(path)
    source = recipe.source(name)
    if (pack.name, pack.source) != (name, source):
        raise MetadriftError(
            f"{path} holds another pack ({pack.name!r} from {pack.source!r}, not {name!r} from "
            f"{source!r}); choose another folder or remove it"
        )
    return pack
