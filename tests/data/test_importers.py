"""Every importer on small datasets in the official layouts, as a folder and as an archive."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from layouts import (
    BIRDS,
    DRAWN,
    MINI,
    OMNIGLOT,
    PLANES,
    Picture,
    aircraft,
    brands,
    cub,
    miniimagenet,
    npy,
    npz,
    omniglot,
    quickdraw_lines,
)
from metadrift.data.importers import plan_import
from metadrift.data.importers.plan import Options
from metadrift.data.importers.report import ImportReport
from metadrift.data.importers.run import import_plan
from metadrift.data.importers.splits import official_names, random_splits
from metadrift.data.pack import SPLITS, Pack, open_pack
from metadrift.errors import MetadriftError, UsageError

Store = Callable[..., Path]


def run(
    kind: str,
    source: Path,
    size: int = 8,
    strict: bool = False,
    workers: int = 1,
    **options: object,
) -> tuple[Pack, ImportReport]:
    plan = plan_import(kind, source, Options(**options))  # type: ignore[arg-type]
    path = source.parent / "packs" / kind
    report = import_plan(plan, path, kind, size=size, strict=strict, workers=workers, replace=True)
    return open_pack(path), report


def splits_of(pack: Pack) -> dict[str, str]:
    return dict(zip(pack.class_names, pack.class_split, strict=True))


def images_of(pack: Pack, name: str) -> np.ndarray:
    c = pack.class_names.index(name)
    return np.array(pack.images[pack.class_offsets[c] : pack.class_offsets[c + 1]])


# Omniglot


@pytest.mark.parametrize("form", ["folder", "zips", "zip", "tgz"])
def test_omniglot_has_its_official_split_and_dark_ink(
    picture: Picture, store: Store, form: str
) -> None:
    files = omniglot(picture)
    if form == "zips":
        for half in ("images_background", "images_evaluation"):
            part = {name: data for name, data in files.items() if name.startswith(half)}
            source = store(part, "zip", name=f"data/{half}").parent
    else:
        source = store(files, form)
    pack, report = run("omniglot", source, size=21)
    official = official_names("omniglot")
    assert splits_of(pack) == {
        name: official[name] for name in ("/".join(folder.split("/")[1:]) for folder in OMNIGLOT)
    }
    assert (pack.channels, len(pack.images), report.unreadable) == (1, 12, [])
    assert pack.images[0, 2, 2, 0] < 20
    assert pack.images[0, -2, -2, 0] > 235


def test_rotations_multiply_training_and_validation_classes_only(
    picture: Picture, store: Store
) -> None:
    pack, _ = run("omniglot", store(omniglot(picture)), size=21, rotations=True)
    counts = Counter(pack.class_split)
    plain = Counter(official_names("omniglot")["/".join(f.split("/")[1:])] for f in OMNIGLOT)
    assert counts["train"] == 4 * plain["train"]
    assert counts["val"] == 4 * plain["val"]
    assert counts["test"] == plain["test"]
    upright = images_of(pack, "Alphabet_of_the_Magi/character01")
    turned = images_of(pack, "Alphabet_of_the_Magi/character01/rot090")
    np.testing.assert_array_equal(np.rot90(upright, axes=(1, 2)), turned)


# miniImageNet


@pytest.mark.parametrize("form", ["folder", "zip", "tar", "tgz"])
def test_miniimagenet_is_split_by_its_csv_files(picture: Picture, store: Store, form: str) -> None:
    pack, report = run("miniimagenet", store(miniimagenet(picture), form))
    assert splits_of(pack) == {name: split for split, names in MINI.items() for name in names}
    assert (pack.channels, len(pack.images), report.unreadable) == (3, 12, [])


def test_csv_files_with_quotes_other_line_ends_and_a_mark_are_read(
    picture: Picture, store: Store
) -> None:
    files = miniimagenet(picture, head='\ufeff"filename","label"\r\n', row='"{}","{}"\r\n')
    pack, _ = run("miniimagenet", store(files))
    assert splits_of(pack) == {name: split for split, names in MINI.items() for name in names}
    assert len(pack.images) == 12


def test_miniimagenet_without_csv_uses_the_names_of_the_images(
    picture: Picture, store: Store
) -> None:
    files = {n: d for n, d in miniimagenet(picture).items() if not n.endswith(".csv")}
    pack, report = run("miniimagenet", store(files))
    assert splits_of(pack) == {name: split for split, names in MINI.items() for name in names}
    assert "no csv files" in report.notes[0]


def test_a_pickled_cache_is_refused_with_the_safe_form_named(store: Store) -> None:
    bomb = b"cos\nsystem\n(S'touch /tmp/never'\ntR."
    folder = store({"mini-imagenet-cache-train.pkl": bomb})
    for source in (folder, folder / "mini-imagenet-cache-train.pkl"):
        with pytest.raises(MetadriftError, match=r"pickle.*refused.*images/\*\.jpg and train\.csv"):
            plan_import("miniimagenet", source, Options())


def test_a_listed_image_that_is_missing_is_reported(picture: Picture, store: Store) -> None:
    for form in ("folder", "tgz"):
        files = miniimagenet(picture)
        del files["images/n0153282900000001.jpg"]
        pack, report = run("miniimagenet", store(files, form, name=f"less-{form}"))
        assert len(pack.images) == 11
        assert [one.reason for one in report.unreadable] == ["listed, but not there"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("val.csv", "filename,label\nx.jpg,n01532829\n", "belongs to one split"),
        ("val.csv", "filename,label\nx.jpg\n", "line 2: there should be a filename and a label"),
        ("val.csv", "file;class\nx.jpg;n1\n", "line 2: there should be"),
        ("val.csv", b"filename,label\n\xff\xfe,\x80\n", "is not text in UTF-8"),
    ],
)
def test_a_csv_that_lies_is_named(
    picture: Picture, store: Store, name: str, text: str | bytes, message: str
) -> None:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(MetadriftError, match=message):
        run("miniimagenet", store(miniimagenet(picture) | {name: data}))


# CUB


@pytest.mark.parametrize("form", ["folder", "tgz", "zip"])
def test_cub_has_its_official_split(store: Store, form: str) -> None:
    pack, report = run("cub", store(cub(), form, name="CUB_200_2011"))
    assert splits_of(pack) == dict(zip(BIRDS, SPLITS, strict=True))
    assert (len(pack.images), report.unreadable) == (9, [])
    assert pack.images.min() == 0


def test_cub_is_found_in_the_folder_that_holds_its_archive(store: Store) -> None:
    archive = store(cub(), "tgz", name="downloads/CUB_200_2011")
    pack, _ = run("cub", archive.parent)
    assert splits_of(pack) == dict(zip(BIRDS, SPLITS, strict=True))
    assert len(pack.images) == 9


def test_cub_is_cropped_to_the_box_when_asked(store: Store) -> None:
    pack, _ = run("cub", store(cub(), "tgz"), crop_to_box=True)
    assert pack.images.min() == 255


def test_cub_tables_that_do_not_fit_are_named(store: Store) -> None:
    for table, text, message in [
        ("image_class_labels", b"1 1\n", "has no class"),
        ("classes", b"1\n", "not a line of `id text`"),
        ("bounding_boxes", b"1 2 3\n", "no bounding box"),
    ]:
        source = store(cub() | {f"CUB_200_2011/{table}.txt": text}, name=table)
        with pytest.raises(MetadriftError, match=message):
            run("cub", source, crop_to_box=True)


# Aircraft


@pytest.mark.parametrize("form", ["folder", "tgz"])
def test_aircraft_loses_its_strip_and_keeps_its_names(store: Store, form: str) -> None:
    pack, report = run("aircraft", store(aircraft(), form), size=32)
    official = official_names("aircraft")
    assert splits_of(pack) == {name: official[name] for name in PLANES}
    assert (len(pack.images), report.unreadable) == (12, [])
    images = np.array(pack.images).astype(int)
    assert (images[..., 0] == images[..., 1]).all(), "nothing of the red strip is left"
    assert set(images[:, -1].ravel().tolist()) == {99}


def test_aircraft_is_cropped_to_the_box_when_asked(store: Store) -> None:
    pack, _ = run("aircraft", store(aircraft()), crop_to_box=True)
    assert pack.images.min() == 255


# QuickDraw


@pytest.mark.parametrize("form", ["folder", "zip", "tgz"])
def test_drawings_are_drawn_light_on_black(store: Store, form: str) -> None:
    files = {f"simplified/{name}.ndjson": quickdraw_lines(4) for name in DRAWN}
    pack, report = run("quickdraw", store(files, form), size=28)
    official = official_names("quickdraw")
    assert splits_of(pack) == {name: official[name] for name in DRAWN}
    assert (pack.channels, len(pack.images), report.unreadable) == (1, 16, [])
    assert 0.02 < (pack.images[0] > 127).mean() < 0.4
    assert pack.images[0].max() == 255
    edges = np.concatenate([pack.images[0, 0], pack.images[0, -1], pack.images[0, :, 0]])
    assert not edges.any(), "there is a margin"


def test_unrecognized_drawings_are_kept_only_when_asked(store: Store) -> None:
    mixed = quickdraw_lines(2) + quickdraw_lines(3, recognized=False)
    source = store({f"{name}.ndjson": mixed for name in DRAWN})
    assert len(run("quickdraw", source)[0].images) == 2 * 4
    assert len(run("quickdraw", source, keep_unrecognized=True)[0].images) == 5 * 4
    assert len(run("quickdraw", source, keep_unrecognized=True, per_class=3)[0].images) == 3 * 4


def test_lines_that_are_no_drawings_are_reported_with_their_numbers(store: Store) -> None:
    bad = b'{"drawing": [[[0, 900], [0, 5]]]}\nnot json\n{"drawing": []}\n[]\n{"a": 1}\n'
    files = {"ant.ndjson": quickdraw_lines(1) + bad, "bee.ndjson": quickdraw_lines(1)}
    pack, report = run("quickdraw", store(files))
    assert len(pack.images) == 2
    assert [one.name for one in report.unreadable] == [f"ant.ndjson, line {n}" for n in range(2, 7)]
    assert "leave 0..255" in report.unreadable[0].reason


@pytest.mark.parametrize("form", ["folder", "zip", "tgz"])
def test_bitmaps_are_taken_as_they_are(store: Store, form: str) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(0, 256, (7, 784), np.uint8) for name in DRAWN}
    files = {f"numpy_bitmap/{name}.npy": npy(array) for name, array in arrays.items()}
    pack, _ = run("quickdraw", store(files, form), size=28, per_class=5)
    for name, array in arrays.items():
        np.testing.assert_array_equal(images_of(pack, name).reshape(-1, 784), array[:5])


def test_a_file_off_the_list_gets_a_split_of_its_own_name(store: Store) -> None:
    files = {f"{n}.npy": npy(np.zeros((2, 784), np.uint8)) for n in ("rainbow5000", "ant")}
    pack, report = run("quickdraw", store(files))
    assert splits_of(pack)["rainbow5000"] in SPLITS
    assert "rainbow5000" in report.notes[0]


@pytest.mark.parametrize(
    "lie",
    [
        np.zeros((3, 100), np.uint8),
        np.zeros((3, 784)),
        np.asfortranarray(np.zeros((3, 784), np.uint8)),
    ],
)
def test_arrays_of_another_shape_are_reported(store: Store, lie: np.ndarray) -> None:
    good = npy(np.zeros((2, 784), np.uint8))
    files = {"ant.npy": good, "bee.npy": good, "cat.npy": npy(lie), "cow.npy": good[:400]}
    pack, report = run("quickdraw", store(files))
    assert set(pack.class_names) == {"ant", "bee"}
    assert {one.name for one in report.unreadable} == {"cat.npy", "cow.npy"}


# Necessities and folder


@pytest.mark.parametrize("form", ["folder", "zip", "tgz"])
def test_necessities_are_found_below_the_root_of_the_logos(
    picture: Picture, store: Store, form: str
) -> None:
    others = {"Logo-2K+/Food/bread/1.jpg": picture()}
    pack, _ = run("necessities", store(brands(picture, 20) | others, form))
    assert sorted(pack.class_names) == sorted(f"brand {b}" for b in range(20))
    assert splits_of(pack) == random_splits(pack.class_names, (100, 41, 41))


def test_the_folder_necessities_itself_and_its_lists_give_the_same_split(
    picture: Picture, store: Store
) -> None:
    whole, _ = run("necessities", store(brands(picture, 20), name="all"))
    own = store(brands(picture, 20, root=""), name="Necessities")
    assert splits_of(run("necessities", own)[0]) == splits_of(whole)
    lines = "".join(f"Necessities/brand {b}/1.jpg {b}\n" for b in range(20))
    listed = store(brands(picture, 20) | {"train_images_root.txt": lines.encode()}, name="listed")
    pack, report = run("necessities", listed / "train_images_root.txt")
    assert splits_of(pack) == splits_of(whole)
    assert (len(pack.images), report.unreadable) == (20, [])


@pytest.mark.parametrize("form", ["folder", "zip", "tgz"])
def test_any_folder_of_class_folders_becomes_a_pack(
    picture: Picture, store: Store, form: str
) -> None:
    files = brands(picture, 16, root="wrapping/") | {"wrapping/loose.jpg": picture()}
    pack, report = run("folder", store(files, form))
    assert splits_of(pack) == random_splits([f"brand {b}" for b in range(16)])
    assert min(Counter(pack.class_split).values()) >= 5
    assert "1 images lie outside" in report.notes[0]


def test_split_folders_are_recognised(picture: Picture, store: Store) -> None:
    places = {
        "Train/cat": "train",
        "Train/dog": "train",
        "validation/cow": "val",
        "test/hen": "test",
    }
    files = {f"{place}/{n}.png": picture() for place in places for n in (1, 2)}
    pack, _ = run("folder", store(files | {"cover.png": picture(), "test/cover.png": picture()}))
    assert splits_of(pack) == {place.split("/")[1]: split for place, split in places.items()}


def test_split_folders_with_the_same_classes_are_put_together(
    picture: Picture, store: Store
) -> None:
    files = {f"{s}/{c}/1.png": picture() for s in ("train", "test") for c in ("cat", "dog", "cow")}
    pack, report = run("folder", store(files))
    assert len(pack.images) == 6
    assert splits_of(pack) == random_splits(["cat", "dog", "cow"])
    assert "by class" in report.notes[0]


def test_grey_and_per_class_are_heard(picture: Picture, store: Store) -> None:
    pack, _ = run("folder", store(brands(picture, 4)), grey=True, per_class=1)
    assert (pack.channels, len(pack.images)) == (1, 4)
    assert [pack.class_size(c) for c in range(4)] == [1, 1, 1, 1]


# npz


def test_arrays_become_a_pack(store: Store) -> None:
    source = store({"some.npz": npz()}) / "some.npz"
    pack, _ = run("npz", source)
    assert splits_of(pack) == {"a": "train", "b/c": "val", "d e": "test", "ö": "train"}
    assert (pack.source, pack.licence, pack.channels) == ("here", "CC0", 3)
    with np.load(source) as arrays:
        np.testing.assert_array_equal(images_of(pack, "b/c"), arrays["images"][1::4])
    assert run("npz", source, size=5, grey=True)[0].images.shape == (12, 5, 5, 1)
    turned, _ = run("npz", source, rotations=True)
    assert sum(name.startswith("b/c") for name in turned.class_names) == 4
    assert [name for name in turned.class_names if name.startswith("d e")] == ["d e"]
    upright, left = images_of(turned, "b/c"), images_of(turned, "b/c/rot090")
    np.testing.assert_array_equal(np.rot90(upright, axes=(1, 2)), left)


def test_arrays_without_names_and_splits_get_them(store: Store) -> None:
    data = npz(names=None, class_split=None, images=np.zeros((12, 9, 5), np.uint8))
    pack, _ = run("npz", store({"x.npz": data}) / "x.npz")
    assert splits_of(pack) == random_splits(["0", "1", "2", "3"])
    assert pack.channels == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": None}, "lacks images"),
        ({"images": np.zeros((12, 8, 8, 3))}, "images .* must be uint8"),
        ({"images": np.zeros((12, 8, 8, 2), np.uint8)}, "must be uint8"),
        ({"images": np.zeros((0, 8, 8), np.uint8)}, "must be uint8"),
        ({"labels": np.zeros(12)}, "12 whole numbers"),
        ({"labels": np.zeros(5, int)}, "12 whole numbers"),
        ({"labels": np.arange(12)}, "but there are 4 names"),
        ({"labels": -np.ones(12, int)}, "but there are 4 names"),
        ({"names": np.array(["a", "a", "b", "c"])}, "more than once"),
        ({"names": np.array([{}], object)}, "cannot be read as .npz"),
        ({"names": np.arange(4)}, "list of text"),
        ({"class_split": np.array(["train"] * 3)}, "4 words"),
        ({"class_split": np.array(["train", "dev", "", ""])}, "holds 'dev'"),
        ({"names": None, "labels": np.full(12, 10**9)}, "count from 0"),
    ],
)
def test_arrays_that_lie_are_named(store: Store, changes: dict[str, object], message: str) -> None:
    with pytest.raises(MetadriftError, match=message):
        run("npz", store({"x.npz": npz(**changes)}) / "x.npz")


# What holds for all


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("cub", "rotations"),
        ("npz", "crop_to_box"),
        ("omniglot", "grey"),
        ("folder", "keep_unrecognized"),
    ],
)
def test_an_option_that_means_nothing_for_the_kind_is_refused(kind: str, option: str) -> None:
    flag = "--" + option.replace("_", "-")
    with pytest.raises(UsageError, match=f"{flag} is not for {kind}"):
        plan_import(kind, Path("x"), Options(**{option: True}))


@pytest.mark.parametrize("form", ["zip", "tgz"])
def test_several_processes_make_the_same_bytes_as_one(store: Store, form: str) -> None:
    rng = np.random.default_rng(0)
    files = {}
    for c in range(6):
        for n in range(100):
            file = io.BytesIO()
            Image.fromarray(rng.integers(0, 256, (9, 9, 3), np.uint8)).save(file, "PNG")
            files[f"class {c}/{n:03d}.png"] = file.getvalue() if n != 7 else b"bad"
    shuffled = sorted(files, key=lambda name: name[::-1])
    source = store({name: files[name] for name in shuffled}, form)
    one, first = run("folder", source, workers=1)
    alone = one.sha256
    two, second = run("folder", source, workers=2)
    assert two.sha256 == alone
    assert len(first.unreadable) == 6
    assert sorted(map(str, first.unreadable)) == sorted(map(str, second.unreadable))


def test_a_worker_process_does_not_pay_for_torch() -> None:
    loaded = "import metadrift.data.importers.run, sys; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@settings(deadline=None, max_examples=100)
@given(count=st.integers(0, 200), seed=st.integers(0, 5))
def test_a_random_split_is_fixed_fair_and_complete(count: int, seed: int) -> None:
    names = [f"n{i}" for i in range(count)]
    splits = random_splits(names, seed=seed)
    assert splits == random_splits(reversed(names), seed=seed)
    assert set(splits) == set(names)
    sizes = Counter(splits.values())
    if count >= 3:
        assert min(sizes[s] for s in SPLITS) >= (5 if count >= 15 else 1)
    if count >= 50:
        assert [sizes[s] for s in SPLITS] == pytest.approx(
            [count * share for share in (0.64, 0.16, 0.2)], abs=1
        )


def test_the_published_seed_gives_the_published_split() -> None:
    splits = random_splits([f"brand {b:03d}" for b in range(182)], (100, 41, 41))
    tests = sorted(name for name, split in splits.items() if split == "test")
    assert Counter(splits.values()) == {"train": 100, "val": 41, "test": 41}
    assert tests[:3] == ["brand 002", "brand 004", "brand 015"]


def test_the_official_lists_have_their_sizes() -> None:
    sizes = {
        "omniglot": (1028, 172, 423), "miniimagenet": (64, 16, 20), "cub": (100, 50, 50),
        "aircraft": (70, 15, 15), "quickdraw": (241, 52, 52),
    }  # fmt: skip
    for name, expected in sizes.items():
        counts = Counter(official_names(name).values())
        assert tuple(counts[split] for split in SPLITS) == expected
    birds = official_names("cub")
    rule = {0: "train", 1: "val", 2: "train", 3: "test"}
    assert all(split == rule[(int(name[:3]) - 1) % 4] for name, split in birds.items())
