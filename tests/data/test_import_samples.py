"""The importers on real samples in the official layouts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metadrift.data.importers import plan_import
from metadrift.data.importers.plan import Options
from metadrift.data.importers.run import import_plan
from metadrift.data.pack import SPLITS, Pack, open_pack


def run(kind: str, source: Path, out: Path, size: int = 28, **options: object) -> Pack:
    plan = plan_import(kind, source, Options(**options))  # type: ignore[arg-type]
    report = import_plan(plan, out / kind, kind, size=size, workers=1)
    assert report.unreadable == []
    pack = open_pack(out / kind)
    pack.verify()
    return pack


@pytest.mark.parametrize(
    ("kind", "source", "images", "classes", "channels"),
    [
        ("omniglot", "omniglot", 840, (36, 6, 0), 1),
        ("miniimagenet", "miniimagenet", 288, (6, 5, 5), 3),
        ("cub", "cub/CUB_200_2011.tgz", 216, (6, 3, 3), 3),
        ("aircraft", "aircraft/fgvc-aircraft-2013b.tar.gz", 216, (8, 3, 1), 3),
        ("quickdraw", "quickdraw/simplified", 324, (10, 2, 2), 1),
        ("quickdraw", "quickdraw/numpy_bitmap", 180, (2, 1, 0), 1),
        ("necessities", "necessities/Logo-2K+", 216, (6, 3, 3), 3),
        ("necessities", "necessities/Logo-2K+/Necessities", 216, (6, 3, 3), 3),
        ("folder", "necessities", 216, (8, 2, 2), 3),
    ],
)
def test_a_real_sample_becomes_a_pack(
    shared: Path,
    tmp_path: Path,
    kind: str,
    source: str,
    images: int,
    classes: tuple[int, ...],
    channels: int,
) -> None:
    pack = run(kind, shared / "samples" / source, tmp_path)
    assert (len(pack.images), pack.channels) == (images, channels)
    assert tuple(len(pack.classes(split)) for split in SPLITS) == classes
    spread = np.array(pack.images).reshape(images, -1).std(axis=1)
    assert (spread > 1).mean() > 0.99, "there is something to see in the images"
    dark = np.array(pack.images).mean() < 128
    assert dark == (kind == "quickdraw") or channels == 3


def test_boxes_of_real_birds_show_less_ground(shared: Path, tmp_path: Path) -> None:
    whole = run("cub", shared / "samples/cub", tmp_path / "whole")
    boxed = run("cub", shared / "samples/cub", tmp_path / "boxed", crop_to_box=True)
    assert boxed.class_names == whole.class_names
    changed = np.abs(np.array(whole.images).astype(int) - boxed.images).mean(axis=(1, 2, 3))
    assert (changed > 1).mean() > 0.9


@pytest.mark.parametrize("name", ["logos", "aircraft", "quickdraw"])
@pytest.mark.parametrize("size", [28, 32])
def test_real_arrays_become_packs(shared: Path, tmp_path: Path, name: str, size: int) -> None:
    pack = run("npz", shared / f"packs32/{name}.npz", tmp_path, size=size)
    assert pack.image_size == size
    assert all(len(pack.classes(split)) >= 5 for split in SPLITS)
    if size == 32:
        with np.load(shared / f"packs32/{name}.npz") as arrays:
            first = arrays["images"][arrays["labels"] == 0]
        np.testing.assert_array_equal(pack.images[: len(first)].squeeze(), first)
