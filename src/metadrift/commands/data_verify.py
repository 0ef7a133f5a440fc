"""`metadrift data verify`: compare packs with their sha256."""

from __future__ import annotations

import json as json_text
from pathlib import Path

import tyro

from metadrift.commands.arguments import Flag, call
from metadrift.data.library import data_folder, find_pack, list_packs
from metadrift.data.pack import Pack
from metadrift.errors import MetadriftError
from metadrift.storage.progress import Bar
from metadrift.storage.terminal import printable


def main(words: list[str]) -> int:
    return call(verify_packs, "data verify", words)


def verify_packs(
    packs: tyro.conf.Positional[tuple[str, ...]] = (),
    /,
    *,
    data: Path | None = None,
    json: Flag = False,
) -> int:
    """Read every byte of packs and compare with their sha256. Exit code 1 when one is damaged.

    Parameters
    ----------
    packs
        Names in the data folder, or paths; by default all packs of the data folder.
    data
        The data folder; by default METADRIFT_DATA, else the user's data folder.
    json
        Print one JSON object.
    """
    folder = data_folder(data)
    found: list[Pack | MetadriftError] = []
    for given in packs:
        try:
            found.append(find_pack(given, folder))
        except MetadriftError as error:
            found.append(error)
    if not packs:
        found = list_packs(folder)
        if not found:
            raise MetadriftError(f"there are no packs in {folder}")
    good: list[str] = []
    bad: list[str] = []
    for pack in found:
        try:
            if isinstance(pack, MetadriftError):
                raise pack
            with Bar(f"reading {pack.name}", pack.examples.nbytes, "bytes") as bar:
                pack.verify(bar.advance)
            good.append(str(pack.path))
        except MetadriftError as error:
            bad.append(str(error))
    if json:
        print(json_text.dumps({"whole": good, "damaged": bad}, indent=1))
    else:
        for line in [f"whole: {path}" for path in good] + [f"damaged: {why}" for why in bad]:
            print(printable(line))
    return 1 if bad else 0
