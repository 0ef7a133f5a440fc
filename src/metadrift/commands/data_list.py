"""`metadrift data list`: the packs in the data folder."""

from __future__ import annotations

import json as json_text
from pathlib import Path

from metadrift.commands.arguments import Flag, call
from metadrift.data.library import data_folder
from metadrift.data.library import list_packs as packs_in
from metadrift.data.pack import SPLITS, Pack
from metadrift.errors import MetadriftError
from metadrift.storage.terminal import printable


def main(words: list[str]) -> int:
    return call(list_packs, "data list", words)


def list_packs(*, data: Path | None = None, json: Flag = False) -> int:
    """The packs in the data folder: their classes by split, and what their examples are.

    Parameters
    ----------
    data
        The data folder; by default METADRIFT_DATA, else the user's data folder.
    json
        Print one JSON object.
    """
    folder = data_folder(data)
    found = packs_in(folder)
    packs = [pack for pack in found if isinstance(pack, Pack)]
    damaged = [str(error) for error in found if isinstance(error, MetadriftError)]
    if json:
        rows = [_row(pack) for pack in packs]
        print(json_text.dumps({"data": str(folder), "packs": rows, "damaged": damaged}, indent=1))
        return 0
    if not found:
        print(f"there are no packs in {folder}; `metadrift data import` makes one")
        return 0
    wide = max([len(pack.name) for pack in packs], default=4) + 2
    print(f"{'pack':<{wide}}{'examples':>9} {'train':>6} {'val':>5} {'test':>5}  {'of what'}")
    for pack in packs:
        counts = [len(pack.classes(split)) for split in SPLITS]
        print(
            f"{printable(pack.name):<{wide}}{len(pack.examples):>9} "
            f"{counts[0]:>6} {counts[1]:>5} {counts[2]:>5}  {pack.kind}"
        )
    for line in damaged:
        print(printable(f"damaged: {line}"))
    print(f"(classes by split; in {folder})")
    return 0


def _row(pack: Pack) -> dict[str, object]:
    return {
        "name": pack.name,
        "path": str(pack.path),
        "examples": len(pack.examples),
        "example": pack.kind.as_table(),
        "classes": {split: len(pack.classes(split)) for split in SPLITS},
        "source": pack.source,
        "licence": pack.licence,
        "sha256": pack.sha256,
    }
