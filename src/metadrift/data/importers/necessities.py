"""Necessities: one of the ten root categories of Logo-2K+ (Wang et al. 2020), 182 brands.

The MLSID paper splits the brands at random into 100 / 41 / 41. Here the published seed decides.
"""

from __future__ import annotations

import re
from pathlib import Path

from metadrift.data.importers.plan import (
    ImageFile,
    Options,
    Plan,
    is_image,
    plan_of,
    text_lines,
)
from metadrift.data.importers.source import Source, open_source
from metadrift.data.importers.splits import random_splits
from metadrift.errors import MetadriftError

CATEGORY = "Necessities"
SHARES = (100.0, 41.0, 41.0)
_BRAND = re.compile(rf"(?:^|/)({CATEGORY}/([^/]+)/.+)")
_LINE = re.compile(r"(.*\.(?:jpe?g|png|bmp|gif|webp))(?:\s+-?\d+)?", re.IGNORECASE)


def plan(path: Path, options: Options) -> Plan:
    """Everything in Necessities/<brand>/, or what a list such as train_images_root.txt names."""
    listed = path.is_file() and path.suffix == ".txt"
    source = open_source(path.parent if listed else path)
    names = _on_the_list(source, path.name) if listed else sorted(filter(is_image, source.names))
    files: dict[str, list[ImageFile]] = {}
    for name in names:
        if found := _BRAND.search(name):
            files.setdefault(found[2], []).append(ImageFile(name))
    if not files and CATEGORY in path.name:  # the category itself: the brands are at its top
        for name in names:
            brand, _, rest = name.partition("/")
            if rest:
                files.setdefault(brand, []).append(ImageFile(name))
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
    return plan_of(files, splits, options, source, origin, "not stated")


def _on_the_list(source: Source, name: str) -> list[str]:
    """The files that a list names; its paths start at the category, wherever that folder is."""
    lines = [line.strip().replace("\\", "/") for line in text_lines(source, name)]
    wanted = {match[1] for match in map(_LINE.fullmatch, lines) if match}
    if not wanted:
        raise MetadriftError(f"{name} in {source.path} is not a list of images, one path per line")
    homes = {found[1]: file for file in source.names if (found := _BRAND.search(file))}
    return sorted(homes.get(path, path) for path in wanted)
