"""`metadrift data generate`: make the six built-in domains."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Literal

import tyro

from metadrift.commands.arguments import Flag, call
from metadrift.data.synthetic.draw import BUILTIN
from metadrift.data.synthetic.generate import ensure_builtin

Name = Literal["sketches", "textures", "glyphs", "creatures", "silhouettes", "badges"]


def main(words: list[str]) -> int:
    return call(generate, "data generate", words)


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

    Other commands make them on first use. This command makes them in advance, or in another
    folder. Existing packs are not changed.

    Parameters
    ----------
    names
        The domains; by default all six.
    size
        Height and width of the images, in pixels.
    out
        A folder for the packs; by default METADRIFT_CACHE, else the user's cache folder.
    seed
        Another seed gives other classes and images.
    workers
        Processes that draw, by default one per core; 1 stays in this process.
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
