"""`metadrift data difficulty`: nearest-centroid accuracy of packs."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path

import tyro

from metadrift.commands.arguments import Flag, call
from metadrift.data.difficulty import nearest_centroid
from metadrift.data.library import find_pack
from metadrift.data.pack import Pack, Split
from metadrift.data.synthetic.draw import BUILTIN
from metadrift.data.synthetic.generate import ensure_builtin
from metadrift.errors import UsageError
from metadrift.randomness import Purpose, generator
from metadrift.storage.terminal import printable
from metadrift.tasks import TaskGeometry


def main(words: list[str]) -> int:
    return call(difficulty, "data difficulty", words)


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
        Built-in names, names in the data folder, or paths; by default the six built-in domains.
    ways
        Classes in a task.
    shots
        Labelled images of each class.
    queries
        Images to classify of each class.
    tasks
        The number of tasks.
    seed
        The seed of the tasks.
    split
        The split whose classes are used.
    size
        The image size of built-in domains.
    json
        Print one JSON object.
    """
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
            print(
                f"{printable(pack.name):<16}{100 * found.accuracy:5.1f} ± {100 * found.ci95:.1f} %"
            )
    if json:
        result = {"ways": ways, "shots": shots, "split": split, "packs": rows}
        print(json_text.dumps(result, indent=1))
    return 0


def _find(names: tuple[str, ...], size: int) -> list[Pack]:
    # A folder of that name here goes before the built-in domain.
    built = [n for n in names if n in BUILTIN and not (Path(n) / "pack.json").is_file()]
    made = dict(zip(built, ensure_builtin(built, size), strict=True))
    return [made[name] if name in made else find_pack(name) for name in names]
