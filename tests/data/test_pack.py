from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadrift.data.pack import Split, open_pack, write_pack
from metadrift.errors import MetadriftError

Row = tuple[str, Split, np.ndarray]


def rows(sizes: list[int], side: int = 6, channels: int = 1, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    splits: list[Split] = ["train", "val", "test"]
    return [
        (f"class {c}", splits[c % 3], rng.integers(0, 256, (n, side, side, channels), np.uint8))
        for c, n in enumerate(sizes)
    ]


def write(path: Path, **changes: object) -> Path:
    options: dict[str, object] = {"source": "a test", "licence": "CC0"} | changes
    return write_pack(path, path.name, rows([3, 2, 4]), **options)  # type: ignore[arg-type]


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any),
    side=st.integers(1, 9),
    channels=st.sampled_from([1, 3]),
    seed=st.integers(0, 9),
)
def test_what_was_written_is_read_back(
    tmp_path: Path, sizes: list[int], side: int, channels: int, seed: int
) -> None:
    given_rows = rows(sizes, side, channels, seed)
    path = write_pack(tmp_path / "p", "Größe 名", given_rows, source="s", licence="l", replace=True)
    pack = open_pack(path)
    pack.verify()
    filled = [row for row in given_rows if len(row[2])]
    assert pack.name == "Größe 名"
    assert (pack.image_size, pack.channels) == (side, channels)
    assert [(n, s) for n, s, _ in filled] == list(
        zip(pack.class_names, pack.class_split, strict=True)
    )
    for c, (_, _, images) in enumerate(filled):
        found = pack.images[pack.class_offsets[c] : pack.class_offsets[c + 1]]
        np.testing.assert_array_equal(found, images)


def test_a_pack_of_five_gigabytes_opens_in_milliseconds(tmp_path: Path) -> None:
    side, images = 84, 5 * 2**30 // (84 * 84 * 3)
    path = write(tmp_path / "large")
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({images}, {side}, {side}, 3), }}"
    with open(path / "images.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little"))
        file.write(header.ljust(117).encode() + b"\n")
        file.truncate(128 + images * side * side * 3)  # sparse: takes no room
    change(path, image_size=side, channels=3, class_offsets=[0, 10, 20, images])
    started = time.perf_counter()
    pack = open_pack(path)
    assert time.perf_counter() - started < 0.1
    assert isinstance(pack.images, np.memmap)
    assert pack.images.nbytes > 4.9 * 2**30
    assert not pack.images[-1].any()


def test_a_flipped_bit_is_noticed_by_verify(tmp_path: Path) -> None:
    path = write(tmp_path / "p")
    told: list[int] = []
    open_pack(path).verify(told.append)
    assert sum(told) == (path / "images.npy").stat().st_size
    data = bytearray((path / "images.npy").read_bytes())
    data[-1] ^= 1
    (path / "images.npy").write_bytes(data)
    with pytest.raises(MetadriftError, match="not those it was made with"):
        open_pack(path).verify()


def change(path: Path, **changes: object) -> None:
    meta = json.loads((path / "pack.json").read_text())
    (path / "pack.json").write_text(json.dumps(meta | changes))


def drop(path: Path, key: str) -> None:
    meta = json.loads((path / "pack.json").read_text())
    del meta[key]
    (path / "pack.json").write_text(json.dumps(meta))


def cut(path: Path) -> None:
    os.truncate(path / "images.npy", 150)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no pack.json": (lambda p: (p / "pack.json").unlink(), "no pack.json"),
    "no images": (lambda p: (p / "images.npy").unlink(), "no images.npy"),
    "a pipe for images": (
        lambda p: ((p / "images.npy").unlink(), os.mkfifo(p / "images.npy")),
        "no images.npy",
    ),
    "not json": (lambda p: (p / "pack.json").write_text("{"), "cannot be read as JSON"),
    "not text": (
        lambda p: (p / "pack.json").write_bytes(b"\xff\xfe\x00"),
        "is not UTF-8 text",
    ),
    "deep json": (lambda p: (p / "pack.json").write_text("[" * 100_000), "as JSON"),
    "other json": (lambda p: (p / "pack.json").write_text("[1]"), "must hold a JSON object"),
    "later format": (lambda p: change(p, format="metadrift-pack/9"), "this version reads"),
    "too few images": (lambda p: change(p, class_offsets=[0, 3, 5, 8]), "does not fit its pack"),
    "falling offsets": (lambda p: change(p, class_offsets=[0, 5, 3, 9]), "rising whole numbers"),
    "true as offset": (
        lambda p: change(p, class_offsets=[False, 3, 5, 9]),
        "class_offsets 1 must be a whole number, not false",
    ),
    "unknown split": (
        lambda p: change(p, class_split=["train", "x", "test"]),
        'class_split 2 must be one of train, val, test, not "x"',
    ),
    "short split": (
        lambda p: change(p, class_split=["train"]),
        "must have 3 entries, one per class",
    ),
    "names as number": (lambda p: change(p, class_names=3), "class_names must be a list, not 3"),
    "four channels": (lambda p: change(p, channels=4), "channels must be one of 1, 3, not 4"),
    "no licence": (lambda p: change(p, licence=None), "licence must be text in quotes, not null"),
    "name elsewhere": (lambda p: change(p, name="../evil"), "name must be the name of a folder"),
    "half a name": (lambda p: change(p, name="\ud800"), "half of a character"),
    "no pixels": (lambda p: change(p, image_size=0), "image_size must be at least 1, not 0"),
    "many pixels": (lambda p: change(p, image_size=60_000), "image_size must be at most 4096"),
    "a key missing": (lambda p: drop(p, "sha256"), r"pack\.json needs 'sha256'"),
    "a pipe": (
        lambda p: ((p / "pack.json").unlink(), os.mkfifo(p / "pack.json")),
        "is not a regular file",
    ),
    "cut images": (cut, "damaged"),
    "empty images": (lambda p: (p / "images.npy").write_bytes(b""), "damaged"),
    "foreign images": (lambda p: (p / "images.npy").write_bytes(b"GIF89a" * 99), "damaged"),
    "float images": (
        lambda p: np.save(p / "images.npy", np.zeros((9, 6, 6, 1))),
        "it holds float64",
    ),
    "pickled images": (
        lambda p: np.save(p / "images.npy", np.array([{}]), allow_pickle=True),
        "damaged",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_pack_is_refused_with_what_is_wrong(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / "p")
    harm, message = DAMAGES[damage]
    harm(path)
    with pytest.raises(MetadriftError, match=message):
        open_pack(path)


def test_more_keys_than_are_read_may_be_there(tmp_path: Path) -> None:
    path = write(tmp_path / "p")
    change(path, made_by="me")
    assert open_pack(path).name == "p"


def test_a_class_whose_folder_has_a_name_that_is_no_text_keeps_what_can_be_read(
    tmp_path: Path,
) -> None:
    given_rows: list[Row] = [("b\udcffd", "train", np.zeros((2, 6, 6, 1), np.uint8))]
    path = write_pack(tmp_path / "p", "p", given_rows, source="", licence="")
    assert open_pack(path).class_names == ["b\ufffdd"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MetadriftError, match=r"there is no pack at .*nowhere"):
        open_pack(tmp_path / "nowhere")


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 2000), junk=st.binary(min_size=1, max_size=8))
def test_any_bytes_in_the_files_give_a_pack_or_one_clear_error(
    tmp_path: Path, place: int, junk: bytes
) -> None:
    path = write(tmp_path / "p", replace=True)
    for name in ("pack.json", "images.npy"):
        data = bytearray((path / name).read_bytes())
        at = place % len(data)
        data[at : at + len(junk)] = junk
        (path / name).write_bytes(data)
        with contextlib.suppress(MetadriftError):
            open_pack(path)


def interrupted() -> Iterator[Row]:
    yield from rows([3, 2])
    raise KeyboardInterrupt


@pytest.mark.parametrize("existing", [False, True])
def test_an_interrupted_write_leaves_nothing_new_behind(tmp_path: Path, existing: bool) -> None:
    path = tmp_path / "p"
    if existing:
        write(path)
    before = sorted(p.name for p in tmp_path.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        write_pack(path, "p", interrupted(), source="", licence="", replace=True)
    assert sorted(p.name for p in tmp_path.rglob("*")) == before
    if existing:
        open_pack(path).verify()


def test_a_pack_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "p")
    with pytest.raises(MetadriftError, match="exists already"):
        write(path)
    write_pack(path, "new", rows([1, 1]), source="", licence="", replace=True)
    assert open_pack(path).name == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 6, 6, 1), np.float32), "of one size and type"),
        (np.zeros((2, 6, 6), np.uint8), "must be uint8"),
        (np.zeros((2, 6, 6, 4), np.uint8), "1 or 3"),
        (np.zeros((2, 6, 5, 1), np.uint8), "square"),
        (np.zeros((2, 7, 7, 1), np.uint8), "of one size"),
        (np.zeros((0, 6, 6, 1), np.uint8), None),
    ],
)
def test_images_that_do_not_fit_are_refused(
    tmp_path: Path, images: np.ndarray, message: str | None
) -> None:
    given_rows: list[Row] = [*rows([2]), ("odd", "train", images)]
    if message is None:
        path = write_pack(tmp_path / "p", "p", given_rows, source="", licence="")
        assert open_pack(path).class_names == ["class 0"]
        return
    with pytest.raises(MetadriftError, match=message):
        write_pack(tmp_path / "p", "p", given_rows, source="", licence="")
    assert list(tmp_path.iterdir()) == []
