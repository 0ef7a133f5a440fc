"""Omniglot (Lake et al. 2015): `images_background` and `images_evaluation`, zip or extracted.

A class is a character, named Alphabet/characterNN. The split is that of Vinyals et al. (2016) over
both halves: 1028 / 172 / 423.
"""

from __future__ import annotations

from pathlib import Path

from metadrift.data.importers.plan import (
    ImageFile,
    Options,
    Plan,
    is_image,
    off_the_list,
    plan_of,
)
from metadrift.data.importers.source import open_source
from metadrift.data.importers.splits import official_splits
from metadrift.errors import MetadriftError

HALVES = ("images_background", "images_evaluation")


def plan(path: Path, options: Options) -> Plan:
    """Find `<half>/<Alphabet>/characterNN/*.png` anywhere below the source."""
    source = open_source(path, mount=[f"{half}.zip" for half in HALVES])
    files: dict[str, list[ImageFile]] = {}
    halves = set()
    for name in sorted(source.names):
        parts = name.split("/")
        if len(parts) >= 4 and parts[-4] in HALVES and is_image(name):
            halves.add(parts[-4])
            files.setdefault(f"{parts[-3]}/{parts[-2]}", []).append(ImageFile(name))
    if not files:
        raise MetadriftError(
            f"{path} is not Omniglot: it should hold images_background and images_evaluation "
            "(.zip or extracted), with <Alphabet>/characterNN/*.png in them"
        )
    splits, unknown = official_splits("omniglot", files)
    notes = off_the_list(unknown)
    missing = [half for half in HALVES if half not in halves]
    notes += [f"{half} is missing: this is only a part of Omniglot" for half in missing]
    if options.rotations:
        for name in [name for name in files if splits[name] != "test"]:
            for turn in (90, 180, 270):
                turned = f"{name}/rot{turn:03d}"
                files[turned] = [ImageFile(file.member, turn=turn) for file in files[name]]
                splits[turned] = splits[name]
    origin = (
        "Omniglot (Lake, Salakhutdinov and Tenenbaum 2015), https://github.com/brendenlake/omniglot"
    )
    return plan_of(files, splits, options, source, origin, "MIT", notes, colour=False)
