"""miniImageNet: `images/*.jpg` and `train.csv`, `val.csv`, `test.csv` (Ravi and Larochelle 2017).

The csv files say the class and the split of each image: 64 / 16 / 20 classes of 600.
"""

from __future__ import annotations

import csv
from pathlib import Path, PurePosixPath

from metadrift.data.importers.plan import ImageFile, Options, Plan, is_image, plan_of, text_lines
from metadrift.data.importers.source import Source, open_source
from metadrift.data.importers.splits import official_names
from metadrift.data.pack import SPLITS, Split
from metadrift.errors import MetadriftError

_ARCHIVES = ("images.zip", "images.tar", "images.tar.gz", "images.tgz")
_LAYOUT = "a folder with images/*.jpg and train.csv, val.csv, test.csv (filename,label)"


def plan(path: Path, options: Options) -> Plan:
    """Read the csv files; without any, the class is read from the image names."""
    if path.suffix in (".pkl", ".pickle"):
        raise _pickled(path)
    source = open_source(path, mount=_ARCHIVES)
    found = [(s, folder) for s in SPLITS for folder in source.beside(f"{s}.csv")[:1]]
    files: dict[str, list[ImageFile]] = {}
    splits: dict[str, Split] = {}
    notes: list[str] = []
    if found:
        for split, folder in found:
            _read_csv(source, split, folder, files, splits)
        missing = [f"{s}.csv" for s in SPLITS if s not in dict(found)]
        notes += [f"{name} is missing, so there are no such classes" for name in missing]
    else:
        official = official_names("miniimagenet")
        for name in sorted(source.names):
            wnid = PurePosixPath(name).name[:9]
            if is_image(name) and wnid in official:
                files.setdefault(wnid, []).append(ImageFile(name))
                splits[wnid] = official[wnid]
        notes.append("there are no csv files: the classes are those in the images' names")
    if not files:
        pickles = [name for name in source.names if name.endswith((".pkl", ".pickle"))]
        if pickles:
            raise _pickled(path / pickles[0])
        raise MetadriftError(f"{path} is not miniImageNet: it should be {_LAYOUT}")
    origin = "miniImageNet (Vinyals et al. 2016), split of Ravi and Larochelle (2017)"
    licence = "ImageNet terms: non-commercial research and education"
    return plan_of(files, splits, options, source, origin, licence, notes)


def _read_csv(
    source: Source,
    split: Split,
    folder: str,
    files: dict[str, list[ImageFile]],
    splits: dict[str, Split],
) -> None:
    name = f"{folder}{split}.csv"
    there = set(source.names)
    try:
        rows = list(csv.DictReader(text_lines(source, name)))
    except csv.Error as error:
        raise MetadriftError(f"{name} in {source.path} is not a csv file: {error}") from None
    for number, row in enumerate(rows, start=2):
        file, label = row.get("filename"), row.get("label")
        if not file or not label:
            raise MetadriftError(
                f"{name} in {source.path}, line {number}: there should be a filename and a label "
                "below the head `filename,label`"
            )
        if splits.setdefault(label, split) != split:
            raise MetadriftError(
                f"class {label} is in {splits[label]}.csv and in {name} of {source.path}; "
                "a class belongs to one split"
            )
        places = [f"{folder}images/{file}", f"{folder}{file}", f"images/{file}", file]
        member = next((place for place in places if place in there), places[0])
        files.setdefault(label, []).append(ImageFile(member))


def _pickled(path: Path) -> MetadriftError:
    return MetadriftError(
        f"{path} is a pickle, which can run any code when it is read, and is refused; "
        f"the safe form is {_LAYOUT}"
    )
