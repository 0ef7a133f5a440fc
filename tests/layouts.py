"""Small datasets in the layouts in which the real ones are published: names of files to bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import numpy as np
from PIL import Image

Files = dict[str, bytes]
Picture = Callable[..., bytes]

OMNIGLOT = {  # one class of each official split
    "images_background/Alphabet_of_the_Magi/character01": "train",
    "images_background/Armenian/character01": "val",
    "images_evaluation/Kannada/character01": "test",
    "images_evaluation/Atemayar_Qelisayer/character02": "test",
}


def omniglot(picture: Picture) -> Files:
    ink = Image.new("1", (105, 105), 1)
    ink.paste(0, (0, 0, 50, 20))
    file = io.BytesIO()
    ink.save(file, "PNG")
    return {f"{folder}/0001_{n:02d}.png": file.getvalue() for folder in OMNIGLOT for n in (1, 2, 3)}


MINI = {"train": ["n01532829", "n01558993"], "val": ["n01855672"], "test": ["n01930112"]}


def miniimagenet(picture: Picture, head: str = "filename,label\n", row: str = "{},{}\n") -> Files:
    files = {}
    for split, classes in MINI.items():
        lines = [head]
        for name in classes:
            for n in range(3):
                files[f"images/{name}0000000{n}.jpg"] = picture("blue", (84, 84), "JPEG")
                lines.append(row.format(f"{name}0000000{n}.jpg", name))
        files[f"{split}.csv"] = "".join(lines).encode()
    return files


BIRDS = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "004.Groove_billed_Ani"]


def cub() -> Files:
    """Photographs that are black but for a white box at (10, 5), 20 wide and 15 high."""
    photo = Image.new("RGB", (60, 40), "black")
    photo.paste("white", (10, 5, 30, 20))
    file = io.BytesIO()
    photo.save(file, "PNG")
    names = [f"{bird}/{bird[4:]}_{n}.jpg" for bird in BIRDS for n in (3, 1, 2)]
    numbers = (
        np.random.default_rng(0).permutation(len(names)) + 1
    )  # ids are not in the names' order
    tables: dict[str, list[str]] = {"images": [], "image_class_labels": [], "bounding_boxes": []}
    for number, name in zip(numbers, names, strict=True):
        tables["images"].append(f"{number} {name}")
        tables["image_class_labels"].append(f"{number} {int(name[:3])}")
        tables["bounding_boxes"].append(f"{number} 10.0 5.0 20.0 15.0")
    tables["classes"] = [f"{int(bird[:3])} {bird}" for bird in BIRDS]
    files = {f"CUB_200_2011/images/{name}": file.getvalue() for name in names}
    for name, lines in tables.items():
        files[f"CUB_200_2011/{name}.txt"] = ("\n".join(lines) + "\n").encode()
    return files | {"attributes.txt": b"not needed"}


PLANES = {"F-16A/B": "train", "F/A-18": "train", "BAE 146-200": "train", "Yak-42": "val"}


def aircraft() -> Files:
    """Grey photographs with a white box, and a red strip of 20 rows at the bottom."""
    photo = Image.new("RGB", (90, 80), (99, 99, 99))
    photo.paste("white", (10, 5, 30, 20))
    photo.paste("red", (0, 60, 90, 80))
    file = io.BytesIO()
    photo.save(file, "PNG")
    root = "fgvc-aircraft-2013b/data/"
    lists: dict[str, list[str]] = {"train": [], "val": [], "trainval": [], "test": []}
    files, boxes = {}, []
    for n in range(12):
        variant = list(PLANES)[n % 4]
        for part in [["train", "trainval"], ["val", "trainval"], ["test"]][n // 4]:
            lists[part].append(f"{n:07d} {variant}")
        boxes.append(f"{n:07d} 11 6 30 20")
        files[f"{root}images/{n:07d}.jpg"] = file.getvalue()
    for part, lines in lists.items():
        files[f"{root}images_variant_{part}.txt"] = ("\n".join(lines) + "\n").encode()
    files[f"{root}images_box.txt"] = "\n".join(boxes).encode()
    return files | {f"{root}variants.txt": "\n".join(PLANES).encode()}


DRAWN = {"airplane": None, "The Eiffel Tower": None, "aircraft carrier": None, "ant": None}


def quickdraw_lines(n: int, recognized: bool = True) -> bytes:
    strokes = [[[0, 255, 255], [0, 0, 100]], [[30], [90]]]
    line = {"word": "x", "recognized": recognized, "drawing": strokes}
    return (json.dumps(line) + "\n").encode() * n


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def brands(picture: Picture, count: int, root: str = "Logo-2K+/Necessities/") -> Files:
    return {
        f"{root}brand {b}/{n}.jpg": picture("green", form="JPEG")
        for b in range(count)
        for n in (1, 2)
    }


def npz(**changes: object) -> bytes:
    rng = np.random.default_rng(0)
    arrays: dict[str, object] = {
        "images": rng.integers(0, 256, (12, 8, 8, 3), np.uint8),
        "labels": np.arange(12) % 4,
        "names": np.array(["a", "b/c", "d e", "ö"]),
        "class_split": np.array(["train", "val", "test", ""]),
        "source": np.array("here"),
        "licence": np.array("CC0"),
    }
    file = io.BytesIO()
    np.savez(file, **{k: v for k, v in (arrays | changes).items() if v is not None})  # type: ignore[arg-type]
    return file.getvalue()


def dataset(kind: str, picture: Picture) -> Files:
    """A small dataset of a kind; every kind of importer needs one here."""
    return {
        "omniglot": lambda: omniglot(picture),
        "miniimagenet": lambda: miniimagenet(picture),
        "cub": cub,
        "aircraft": aircraft,
        "quickdraw": lambda: {f"{name}.ndjson": quickdraw_lines(4) for name in DRAWN},
        "necessities": lambda: brands(picture, 4),
        "folder": lambda: brands(picture, 4),
        "npz": lambda: {"some.npz": npz()},
    }[kind]()
