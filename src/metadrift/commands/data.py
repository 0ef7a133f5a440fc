"""`metadrift data ...`: import, list, verify and preview packs."""

from __future__ import annotations

import json as json_text
import os
import re
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from metadrift.data.importers import KINDS, plan_import
from metadrift.data.importers.plan import Options
from metadrift.data.importers.run import import_plan
from metadrift.data.library import data_folder, find_pack
from metadrift.data.library import list_packs as packs_in
from metadrift.data.pack import SPLITS, Pack, Split
from metadrift.data.preview import Sheet, draw_sheet
from metadrift.errors import MetadriftError, UsageError
from metadrift.randomness import Purpose, generator
from metadrift.storage.progress import Bar

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
KindName = Literal[
    "omniglot", "miniimagenet", "cub", "aircraft", "quickdraw", "necessities", "folder", "npz"
]


def import_dataset(
    kind: tyro.conf.Positional[KindName],
    source: tyro.conf.Positional[Path],
    /,
    *,
    out: Path | None = None,
    name: str | None = None,
    size: int = 84,
    per_class: int | None = None,
    grey: Flag = False,
    crop_to_box: Flag = False,
    rotations: Flag = False,
    keep_unrecognized: Flag = False,
    strict: Flag = False,
    replace: Flag = False,
    workers: int | None = None,
    json: Flag = False,
) -> int:
    """Make a pack from a dataset as it is published: an archive or the extracted folder.

    Archives are read in place, nothing is unpacked to disk. Images are squashed to squares. Files
    that cannot be read are left out and listed. The class split is the published one where there
    is one; docs/data.md says which, and where to get each dataset.

    Parameters
    ----------
    kind
        What the source is. omniglot: the folder with images_background and images_evaluation (zip
        or extracted). miniimagenet: the folder with images/ and train.csv, val.csv, test.csv.
        cub: CUB_200_2011.tgz. aircraft: fgvc-aircraft-2013b.tar.gz. quickdraw: the folder of
        simplified *.ndjson or of numpy_bitmap *.npy. necessities: Logo-2K+ or its Necessities.
        folder: any folder of class folders. npz: images, labels, names in one .npz file.
    source
        The archive, the folder or the file.
    out
        The data folder, in which the pack becomes a folder of its own. Without it: METADRIFT_DATA,
        else the user's data folder.
    name
        The pack's name. Without it: the kind; for folder and npz the source's own name.
    size
        Height and width of the images in the pack, in pixels.
    per_class
        Keep only the first so many images of each class. Without it all; of quickdraw 600.
    grey
        Store one channel instead of three. For datasets in colour.
    crop_to_box
        Cut to the published bounding box before resizing. For cub and aircraft.
    rotations
        Add three classes for each training and validation class: turned by 90, 180 and 270
        degrees. For omniglot and npz.
    keep_unrecognized
        Keep drawings that the game did not recognize. For quickdraw.
    strict
        Fail on the first file that cannot be read, and write nothing.
    replace
        Put the new pack in the place of one that exists.
    workers
        Processes that decode. Without it one a core; 1 stays in this process.
    json
        Print the result as one JSON object.
    """
    if not 4 <= size <= 1024:
        raise UsageError(f"--size must be between 4 and 1024 pixels, not {size}")
    if workers is not None and workers < 0:
        raise UsageError(f"--workers must be 0 or more, not {workers}")
    name = _pack_name(kind, source, name)
    path = data_folder(out) / name
    if path.exists() and not replace:
        raise MetadriftError(f"{path} exists already; --replace puts the new pack in its place")
    options = Options(per_class, crop_to_box, rotations, keep_unrecognized, grey)
    plan = plan_import(kind, source, options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # cleans up as Ctrl-C does
    with Bar(f"importing {name}", plan.count, "images") as bar:
        report = import_plan(
            plan,
            path,
            name,
            size=size,
            strict=strict,
            replace=replace,
            workers=(os.cpu_count() or 1) if workers is None else workers,
            progress=bar.advance,
        )
    print(report.as_json() if json else report.as_text())
    return 0


def list_packs(*, data: Path | None = None, json: Flag = False) -> int:
    """The packs in the data folder: their classes by split, their images and their size.

    Parameters
    ----------
    data
        The data folder. Without it: METADRIFT_DATA, else the user's data folder.
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
    print(
        f"{'pack':<{wide}}{'images':>9} {'px':>4} {'colour':>6} {'train':>6} {'val':>5} {'test':>5}"
    )
    for pack in packs:
        counts = [len(pack.classes(split)) for split in SPLITS]
        colour = "yes" if pack.channels == 3 else "no"
        print(
            f"{pack.name:<{wide}}{len(pack.images):>9} {pack.image_size:>4} {colour:>6} "
            f"{counts[0]:>6} {counts[1]:>5} {counts[2]:>5}"
        )
    for line in damaged:
        print(f"damaged: {line}")
    print(f"(classes by split; in {folder})")
    return 0


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
        Names in the data folder, or paths. Without any: all packs of the data folder.
    data
        The data folder. Without it: METADRIFT_DATA, else the user's data folder.
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
        found = packs_in(folder)
        if not found:
            raise MetadriftError(f"there are no packs in {folder}")
    good: list[str] = []
    bad: list[str] = []
    for pack in found:
        try:
            if isinstance(pack, MetadriftError):
                raise pack
            with Bar(f"reading {pack.name}", pack.images.nbytes, "bytes") as bar:
                pack.verify(bar.advance)
            good.append(str(pack.path))
        except MetadriftError as error:
            bad.append(str(error))
    if json:
        print(json_text.dumps({"whole": good, "damaged": bad}, indent=1))
    else:
        print("\n".join([f"whole: {path}" for path in good] + [f"damaged: {why}" for why in bad]))
    return 1 if bad else 0


def preview_pack(
    pack: tyro.conf.Positional[str],
    /,
    *,
    data: Path | None = None,
    out: Path | None = None,
    split: Split = "train",
    classes: int = 10,
    images: int = 12,
    seed: int = 0,
) -> int:
    """Draw a sheet of a pack's images as a PNG file: a row is a class, its name at the left.

    Parameters
    ----------
    pack
        A name in the data folder, or a path.
    data
        The data folder. Without it: METADRIFT_DATA, else the user's data folder.
    out
        The PNG file. Without it: NAME-SPLIT.png in the current folder.
    split
        Which classes.
    classes
        How many rows.
    images
        How many images in a row.
    seed
        Which classes and images are drawn.
    """
    if classes < 1 or images < 1 or seed < 0:
        raise UsageError("--classes and --images must be at least 1, and --seed at least 0")
    found = find_pack(pack, data)
    sheet = Sheet(split, min(classes, 1000), min(images, 200))
    picture = draw_sheet(found, sheet, generator(seed, Purpose.PREVIEW))
    file = out or Path(f"{found.name}-{split}.png")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        picture.save(file, "PNG")
    except OSError as error:
        raise MetadriftError(f"the sheet cannot be written to {file}: {error}") from None
    print(file)
    return 0


def _pack_name(kind: str, source: Path, name: str | None) -> str:
    if name is None:
        stem = re.sub(r"\.(tar\.\w+|\w+)$", "", source.name or source.resolve().name)
        name = kind if KINDS[kind].named else stem
    if not name or name.startswith(".") or re.search(r'[/\\:*?"<>|\0]', name):
        raise UsageError(f"{name!r} cannot be a folder's name; give one with --name")
    return name


def _row(pack: Pack) -> dict[str, object]:
    return {
        "name": pack.name,
        "path": str(pack.path),
        "images": len(pack.images),
        "image_size": pack.image_size,
        "channels": pack.channels,
        "classes": {split: len(pack.classes(split)) for split in SPLITS},
        "source": pack.source,
        "licence": pack.licence,
        "sha256": pack.sha256,
    }
