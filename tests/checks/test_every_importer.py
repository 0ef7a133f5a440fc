"""What any importer must do, whatever it reads. A new one is checked by being in KINDS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layouts import Picture, dataset
from metadrift.data.importers import KINDS, KindName, plan_import
from metadrift.data.importers.plan import Options
from metadrift.data.importers.report import ImportReport
from metadrift.data.importers.run import import_plan
from metadrift.data.pack import Pack, open_pack
from metadrift.errors import MetadriftError

Store = Callable[..., Path]
FILE_KINDS = [kind for kind in KINDS if kind != "npz"]  # npz reads one file and no image files
every_kind = pytest.mark.parametrize("kind", list(KINDS))
every_file_kind = pytest.mark.parametrize("kind", FILE_KINDS)


def run(kind: str, source: Path, strict: bool = False) -> tuple[Pack, ImportReport]:
    arrays = source / "some.npz"
    plan = plan_import(kind, arrays if arrays.is_file() else source, Options())
    path = source.parent / "packs" / kind
    report = import_plan(plan, path, kind, size=8, strict=strict, replace=True)
    return open_pack(path), report


@every_kind
def test_it_can_be_asked_for_and_is_documented(kind: str) -> None:
    assert kind in get_args(KindName)
    text = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert f"metadrift data import {kind} " in text
    assert KINDS[kind].options <= set(vars(Options()))


@every_kind
def test_its_pack_is_whole_and_says_what_it_is(kind: str, picture: Picture, store: Store) -> None:
    pack, report = run(kind, store(dataset(kind, picture)))
    pack.verify()
    assert report.unreadable == []
    assert pack.images.shape[1:3] == (8, 8)
    assert all(pack.class_size(c) > 0 for c in range(len(pack.class_names)))
    assert len(set(pack.class_names)) == len(pack.class_names) >= 2
    assert pack.source
    assert pack.licence


@every_file_kind
def test_a_folder_and_its_archives_give_the_same_bytes(
    kind: str, picture: Picture, store: Store
) -> None:
    files = dataset(kind, picture)
    packs = [run(kind, store(files, form))[0] for form in ("folder", "zip", "tgz")]
    assert len({pack.sha256 for pack in packs}) == 1
    assert len({(tuple(pack.class_names), tuple(pack.class_split)) for pack in packs}) == 1


def is_content(name: str) -> bool:
    return name.endswith((".jpg", ".png", ".ndjson"))


@every_file_kind
@pytest.mark.parametrize("form", ["folder", "tgz"])
def test_unreadable_files_are_left_out_and_listed_or_fail_when_strict(
    picture: Picture, store: Store, kind: str, form: str
) -> None:
    files = dataset(kind, picture)
    contents = [name for name in files if is_content(name)]
    broken = {contents[0]: b"", contents[-1]: files[contents[-1]][:40]}
    source = store(files | broken, form)
    _, report = run(kind, source)
    # an empty list of drawings is no unreadable file: it is a class without images
    assert {one.name.split(",")[0] for one in report.unreadable} >= set(list(broken)[1:])
    packs = source.parent / "packs"
    before = (packs / kind / "pack.json").read_bytes()
    with pytest.raises(MetadriftError, match=r"cannot be read.*Nothing was written"):
        run(kind, source, strict=True)
    assert [p.name for p in packs.iterdir()] == [kind]
    assert (packs / kind / "pack.json").read_bytes() == before


@every_kind
def test_something_else_gives_one_clear_error_and_nothing_half_written(
    store: Store, kind: str, tmp_path: Path
) -> None:
    sources = [store({"readme.txt": b"hello"}, form, name="x") for form in ("folder", "zip", "tgz")]
    (tmp_path / "empty.zip").write_bytes(b"")
    (tmp_path / "lying.tgz").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 999)
    for source in [*sources, tmp_path / "empty.zip", tmp_path / "lying.tgz", tmp_path / "nothing"]:
        with pytest.raises(MetadriftError) as caught:
            run(kind, source)
        assert source.name in str(caught.value)
    assert not (tmp_path / "packs").exists()


@every_file_kind
def test_a_dataset_of_which_nothing_can_be_read_leaves_nothing(
    picture: Picture, store: Store, kind: str
) -> None:
    files = {n: b"junk" if is_content(n) else d for n, d in dataset(kind, picture).items()}
    source = store(files)
    with pytest.raises(MetadriftError, match="at least 2 classes"):
        run(kind, source)
    assert list((source.parent / "packs").iterdir()) == []


@every_file_kind
@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_text_and_images_never_crash_an_import(
    picture: Picture, tmp_path: Path, kind: str, data: st.DataObject
) -> None:
    files = dataset(kind, picture)
    for name in data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=4)):
        whole = bytearray(files[name])
        at = data.draw(st.integers(0, len(whole)))
        files[name] = bytes(whole[:at] + data.draw(st.binary(max_size=6)))
    folder = tmp_path / "damaged"
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    try:
        run(kind, folder)[0].verify()
    except MetadriftError:
        packs = tmp_path / "packs"
        assert not packs.exists() or {p.name for p in packs.iterdir()} <= {kind}
