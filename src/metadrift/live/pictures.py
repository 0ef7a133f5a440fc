"""Pictures from folders, files and arrays, fitted as the training pictures were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from metadrift.data.images import UnreadableImageError, decode, read_image_file, resize_array
from metadrift.data.importers import folder
from metadrift.data.importers.plan import ImageFile, Options, Plan, Unreadable, is_image
from metadrift.data.importers.source import READ_ERRORS, Source, open_source
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Pictures

Picture = str | Path | np.ndarray | Tensor | Image.Image
"""A file's path; or uint8 [H, W] or [H, W, 1 or 3]; or an image of Pillow."""
Support = str | Path | Mapping[str, Sequence[Picture]]
"""A folder (or archive) of class folders; or the pictures of each class by its name."""
Queries = Picture | Sequence[Picture]
"""One or many; a path may be a folder (or archive), which stands for all pictures below it."""


ONE = "picture"


@dataclass(frozen=True)
class Labelled:
    """The support examples, class after class: [n, *example], labels int64 [n]."""

    classes: list[str]
    examples: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Asked:
    """The queries, [m, *example], their names, and their classes where known."""

    names: list[str]
    examples: Tensor
    truth: list[str | None]
    unreadable: list[Unreadable]


def read_support(support: Support, form: Pictures) -> Labelled:
    """The pictures of at least two classes; one that cannot be read is an error."""
    if isinstance(support, str | Path):
        found = _class_folders(Path(support), form)
    else:
        found = {name: [_one(p, form) for p in pictures] for name, pictures in support.items()}
    empty = [name for name, pictures in found.items() if not pictures]
    if len(found) < 2 or empty:
        what = f"class {empty[0]!r} has no picture" if empty else f"there are {len(found)} classes"
        raise MetadriftError(f"{what}; the support needs at least 2 classes with a picture each")
    blocks = [_stack(pictures) for pictures in found.values()]
    labels = torch.arange(len(blocks)).repeat_interleave(torch.tensor([len(b) for b in blocks]))
    return Labelled(list(found), torch.cat(blocks), labels)


def read_queries(queries: Queries, classes: Sequence[str], form: Pictures) -> Asked:
    """All pictures; in folders those that cannot be read are left out and listed.

    A picture in a folder that is named as one of the classes is of that class.
    """
    names: list[str] = []
    pictures: list[np.ndarray] = []
    truth: list[str | None] = []
    unreadable: list[Unreadable] = []
    for number, query in enumerate(_sequence(queries)):
        if isinstance(query, str | Path) and not _is_picture_file(Path(query)):
            source = open_source(Path(query))
            for name in sorted(n for n in source.names if is_image(n)):
                made = _decoded(source, name, form)
                if isinstance(made, Unreadable):
                    unreadable.append(made)
                    continue
                names.append(name)
                pictures.append(made)
                top = name.split("/")[0] if "/" in name else None
                truth.append(top if top in classes else None)
            continue
        is_path = isinstance(query, str | Path)
        names.append(str(query) if is_path else f"picture {number}")
        pictures.append(_one(query, form))
        truth.append(None)
    if not pictures:
        why = f"; {unreadable[0].name}: {unreadable[0].reason}" if unreadable else ""
        raise MetadriftError(f"there is no query picture that can be read{why}")
    return Asked(names, _stack(pictures), truth, unreadable)


def _class_folders(path: Path, form: Pictures) -> dict[str, list[np.ndarray]]:
    plan: Plan = folder.plan(path, Options())
    assert plan.source is not None
    found: dict[str, list[np.ndarray]] = {}
    for planned in sorted(plan.classes, key=lambda c: c.name):
        found[planned.name] = []
        for piece in planned.pieces:
            made = _decoded(plan.source, str(piece.member), form)
            if isinstance(made, Unreadable):
                raise MetadriftError(
                    f"the support picture {made.name} in {path} cannot be used: {made.reason}"
                )
            found[planned.name].append(made)
    return found


def _decoded(source: Source, name: str, form: Pictures) -> np.ndarray | Unreadable:
    try:
        with source.open(name) as file:
            return next(iter(ImageFile(name).make(file, form)))
    except READ_ERRORS as error:
        return Unreadable(name, str(error))


def _one(picture: Picture, form: Pictures) -> np.ndarray:
    """uint8 [size, size, channels]."""
    if isinstance(picture, str | Path):
        try:
            return decode(read_image_file(Path(picture)), form)
        except OSError as error:
            raise MetadriftError(f"{picture} cannot be read: {error.strerror}") from None
        except UnreadableImageError as error:
            raise MetadriftError(f"{picture} cannot be used: {error}") from None
    if isinstance(picture, Image.Image):
        picture = np.asarray(picture.convert("L" if picture.mode in ("1", "L") else "RGB"))
    array = np.asarray(picture)
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3))
    if array.dtype != np.uint8 or not fits or array.size == 0:
        raise UsageError(
            f"a picture as an array must be uint8 [H, W] or [H, W, 1 or 3], "
            f"not {array.dtype} {list(array.shape)}"
        )
    return resize_array(array, form)


def _sequence(queries: Queries) -> Sequence[Picture]:
    if isinstance(queries, str | Path | Image.Image):
        return [queries]
    if isinstance(queries, np.ndarray | Tensor):
        # [m, H, W, C], or [m, H, W]; the last side tells one picture [H, W, C] from these.
        one = queries.ndim == 2 or (queries.ndim == 3 and queries.shape[2] in (1, 3))
        return [queries] if one else list(queries)
    return queries


def _is_picture_file(path: Path) -> bool:
    return path.is_file() and is_image(path.name)


def _stack(pictures: Sequence[np.ndarray]) -> Tensor:
    """[n, size, size, channels] to [n, channels, size, size]."""
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
