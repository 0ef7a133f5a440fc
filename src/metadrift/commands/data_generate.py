"""`metadrift data generate` and `metadrift data difficulty`."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from metadrift.data.pack import Pack, Split
from metadrift.data.synthetic.draw import BUILTIN
from metadrift.data.synthetic.generate import ensure_builtin
from metadrift.errors import UsageError
from metadrift.randomness import Purpose, generator

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
Name = Literal["sketches", "textures", "glyphs", "creatures", "silhouettes", "badges"]


def generate(
    names: tyro.conf.Positional[tuple[Name, ...]] = (),
    /,
    *,
    size: int = 28,
    out: Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    json: Flag = False,
) -> int:
    """Make the built-in domains: sketches, textures, glyphs, creatures, silhouettes, badges.

    Other commands make them on first use; this makes them beforehand, or elsewhere. Packs that
    are there already are left as they are.

    Parameters
    ----------
    names
        Which domains. Without any: all six.
    size
        Height and width of the images, in pixels.
    out
        A folder for the packs. Without it: the user's cache folder, or METADRIFT_CACHE.
    seed
        Another seed, other classes and other images.
    workers
        Processes that draw. Without it one a core; 1 stays in this process.
    json
        Print one JSON object.
    """
    packs = ensure_builtin(names or BUILTIN, size, seed, workers, folder=out)
    if json:
        rows = [{"name": p.name, "path": str(p.path), "sha256": p.sha256} for p in packs]
        print(json_text.dumps({"packs": rows}, indent=1))
        return 0
    for pack in packs:
        print(f"{pack.name:<13}{pack.sha256}  {pack.path}")
    return 0


def difficulty(
    packs: tyro.conf.Positional[tuple[str, ...]] = (),
    /,
    *,
    ways: int = 5,
    shots: int = 5,
    queries: int = 10,
    tasks: int = 750,
    seed: int = 0,
    split: Split = "test",
    size: int = 28,
    json: Flag = False,
) -> int:
    """How well the nearest class mean of raw pixels does: a table with 95 % intervals.

    Parameters
    ----------
    packs
        Built-in names, names in the data folder, or paths. Without any: the six built-in domains.
    ways
        Classes in a task.
    shots
        Labelled images of each class.
    queries
        Images to name of each class.
    tasks
        How many tasks.
    seed
        Which tasks are drawn.
    split
        Which classes.
    size
        The image size of built-in domains.
    json
        Print one JSON object.
    """
    # These bring in torch, which processes that only draw do without.
    from metadrift.data.difficulty import nearest_centroid
    from metadrift.tasks import TaskGeometry

    if seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {seed}")
    geometry = TaskGeometry(ways, shots, queries)
    rows = []
    for pack in _find(packs or BUILTIN, size):
        found = nearest_centroid(pack, geometry, tasks, generator(seed, Purpose.DIFFICULTY), split)
        rows.append({"name": pack.name, **asdict(found)})
        if not json:
            if len(rows) == 1:
                print(f"nearest centroid of raw pixels, {ways}-way {shots}-shot, {split} classes")
            print(f"{pack.name:<16}{100 * found.accuracy:5.1f} ± {100 * found.ci95:.1f} %")
    if json:
        result = {"ways": ways, "shots": shots, "split": split, "packs": rows}
        print(json_text.dumps(result, indent=1))
    return 0


def _find(names: tuple[str, ...], size: int) -> list[Pack]:
    from metadrift.data.library import find_pack

    # A folder of that name here goes before the built-in domain.
    built = [n for n in names if n in BUILTIN and not (Path(n) / "pack.json").is_file()]
    made = dict(zip(built, ensure_builtin(built, size), strict=True))
    return [made[name] if name in made else find_pack(name) for name in names]
