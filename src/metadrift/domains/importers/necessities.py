"""Necessities: one of the ten root categories of Logo-2K+ (Wang et al. 2020), 182 brands.

The MLSID paper splits the brands at random into 100 / 41 / 41; here the published seed does.
"""

from __future__ import annotations

import re
from pathlib import Path

from metadrift.domains.importers.plan import (
    ImageFile,
    Options,
    Plan,
    is_image,
    planned,
    text_lines,
)
from metadrift.domains.source import open_source
from metadrift.domains.splits import random_splits
from metadrift.errors import MetadriftError

CATEGORY = "Necessities"
SHARES = (100.0, 41.0, 41.0)
_LINE = re.compile(r"(.*\.(?:jpe?g|png|bmp|gif|webp))(?:\s+-?\d+)?", re.IGNORECASE)


def plan(path: Path, options: Options) -> Plan:
    """Everything in Necessities/<brand>/, or what a list such as train_images_root.txt names."""
    listed = path.is_file() and path.suffix == ".txt"
    source = open_source(path.parent if listed else path)
    if listed:
        names = _listed(path.name, text_lines(source, path.name))
        # the paths of a list start at the category, wherever its folder lies
        homes = {name[name.find(f"{CATEGORY}/") :]: name for name in source.names}
        names = [homes.get(name, name) for name in names]
    else:
        names = sorted(name for name in source.names if is_image(name))
    if not any(f"{CATEGORY}/" in name for name in names) and CATEGORY in path.name:
        names = [f"{CATEGORY}/{name}" for name in names]
        inside = len(CATEGORY) + 1
    else:
        inside = 0
    files: dict[str, list[ImageFile]] = {}
    for name in names:
        below = re.search(rf"(?:^|/){CATEGORY}/([^/]+)/", name)
        if below:
            files.setdefault(below[1], []).append(ImageFile(name[inside:]))
    if len(files) < 2:
        raise MetadriftError(
            f"{path} holds {len(files)} brands of Necessities; it should be Logo-2K+ or its folder "
            "Necessities, with a folder of images for each brand, or one of the lists "
            "train_images_root.txt and test_images_root.txt beside it"
        )
    splits = random_splits(files, SHARES)
    origin = (
        "Logo-2K+ Necessities (Wang et al. 2020), https://github.com/msn199959/Logo-2k-plus-Dataset"
    )
    channels = 1 if options.grey else 3
    return Plan(planned(files, splits, options), source, channels, origin, "not stated")


def _listed(name: str, lines: list[str]) -> list[str]:
    found = [_LINE.fullmatch(line.strip().replace("\\", "/")) for line in lines]
    if not any(found):
        raise MetadriftError(f"{name} is not a list of images, a path a line")
    return sorted({match[1].removeprefix("./") for match in found if match})
