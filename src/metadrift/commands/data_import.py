"""`metadrift data import`: make a pack from a dataset."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import tyro

from metadrift.commands.arguments import Flag, call
from metadrift.data.example_files import Columns
from metadrift.data.importers import KINDS, KindName, plan_import
from metadrift.data.importers.plan import Options
from metadrift.data.importers.run import import_plan
from metadrift.data.importers.vectors import import_vectors
from metadrift.data.library import data_folder
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import FloatType
from metadrift.storage.progress import Bar


def main(words: list[str]) -> int:
    return call(import_dataset, "data import", words)


def import_dataset(
    kind: tyro.conf.Positional[KindName],
    source: tyro.conf.Positional[Path],
    /,
    *,
    out: Path | None = None,
    name: str | None = None,
    size: int | None = None,
    labels: Path | None = None,
    label_column: str | None = None,
    split_column: str | None = None,
    dtype: FloatType | None = None,
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
    """Make a pack from a published dataset, or from your own files.

    Archives are read in place; nothing is unpacked to disk. Images are squashed to squares. Files
    that cannot be read are left out and listed. The class split is the published one if there is
    one. docs/data.md says which, and where to get each dataset.

    Parameters
    ----------
    kind
        What the source is. omniglot: the folder with images_background and images_evaluation (zip
        or extracted). miniimagenet: the folder with images/ and train.csv, val.csv, test.csv.
        cub: CUB_200_2011.tgz. aircraft: fgvc-aircraft-2013b.tar.gz. quickdraw: the folder of
        simplified *.ndjson or of numpy_bitmap *.npy. necessities: Logo-2K+ or its Necessities.
        folder: any folder of class folders. npz: images, labels, names in one .npz file.
        vectors: rows of numbers with a class each, in a .npz, .npy, .csv or .parquet file.
    source
        The archive, the folder or the file.
    out
        The data folder; the pack becomes a folder in it. By default METADRIFT_DATA, else the user's
        data folder.
    name
        The pack's name. By default the kind; for folder and npz the source's own name.
    size
        Height and width of the images in the pack, in pixels; by default 84.
    labels
        For vectors in a .npy file: another file with a label per row, .npy or a line each.
    label_column
        For vectors in .csv and .parquet: the column with the classes, by default `label`.
    split_column
        For vectors in .csv and .parquet: a column with train, val or test. Without it classes are
        divided at random.
    dtype
        For vectors: float32, which is the default, or float16, which takes half the space.
    per_class
        Keep only this many images of each class, the first ones. By default all; of quickdraw 600.
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
        Replace a pack that exists.
    workers
        Processes that decode, by default one per core; 1 stays in this process.
    json
        Print the result as one JSON object.
    """
    if size is not None and not 4 <= size <= 1024:
        raise UsageError(f"--size must be between 4 and 1024 pixels, not {size}")
    if workers is not None and workers < 0:
        raise UsageError(f"--workers must be 0 or more, not {workers}")
    name = _pack_name(kind, source, name)
    path = data_folder(out) / name
    if path.exists() and not replace:
        raise MetadriftError(f"{path} exists already; --replace puts the new pack in its place")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # cleans up as Ctrl-C does
    of_vectors = {"--labels": labels, "--label-column": label_column}
    of_vectors |= {"--split-column": split_column, "--dtype": dtype}
    of_pictures = {"--size": size, "--grey": grey, "--crop-to-box": crop_to_box}
    of_pictures |= {"--rotations": rotations, "--keep-unrecognized": keep_unrecognized}
    of_pictures |= {"--strict": strict, "--workers": workers}
    for option, value in (of_pictures if kind == "vectors" else of_vectors).items():
        if value not in (None, False):
            raise UsageError(
                f"{option} is not for {kind}; it is for "
                f"{'pictures' if kind == 'vectors' else 'vectors'}"
            )
    if kind == "vectors":
        if per_class is not None and per_class < 1:
            raise UsageError(f"--per-class must be at least 1, not {per_class}")
        columns = Columns(labels, label_column or "label", split_column)
        with Bar(f"importing {name}", None, "rows") as bar:
            report = import_vectors(
                source,
                path,
                name,
                columns,
                dtype=dtype or "float32",
                per_class=per_class,
                replace=replace,
                progress=bar.advance,
            )
        print(report.as_json() if json else report.as_text())
        return 0
    options = Options(per_class, crop_to_box, rotations, keep_unrecognized, grey)
    plan = plan_import(kind, source, options)
    with Bar(f"importing {name}", plan.count, "images") as bar:
        report = import_plan(
            plan,
            path,
            name,
            size=size or 84,
            strict=strict,
            replace=replace,
            workers=(os.cpu_count() or 1) if workers is None else workers,
            progress=bar.advance,
        )
    print(report.as_json() if json else report.as_text())
    return 0


def _pack_name(kind: str, source: Path, name: str | None) -> str:
    if name is None:
        stem = re.sub(r"\.(tar\.\w+|\w+)$", "", source.name or source.resolve().name)
        name = kind if kind in KINDS and KINDS[kind].named else stem
    if not name or name.startswith(".") or re.search(r'[/\\:*?"<>|\0]', name):
        raise UsageError(f"{name!r} cannot be a folder's name; give one with --name")
    return name
