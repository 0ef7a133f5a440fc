from __future__ import annotations

import io
import os
import pickle
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadrift.data.importers import archives as archive_check
from metadrift.data.importers.source import READ_ERRORS, open_source
from metadrift.errors import MetadriftError

FILES = {"top/b/2.txt": b"two", "top/a/1.jpg": b"one" * 999, "top/c d/3 (4).png": b"\0" * 70_000}
CLUTTER = {"__MACOSX/top/._1.jpg": b"x", "top/.DS_Store": b"x", "top/a/Thumbs.db": b"x"}
FORMS = ["folder", "zip", "tar", "tgz"]
Store = Callable[..., Path]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_lists_and_reads_the_same_files(store: Store, form: str) -> None:
    source = open_source(store(FILES | CLUTTER, form))
    assert sorted(source.names) == sorted(FILES)
    again = pickle.loads(pickle.dumps(source))  # as it travels to a worker
    for one in (source, again):
        for name, data in FILES.items():
            with one.open(name) as file:
                assert file.read() == data
    assert dict(source.stream({"top/a/1.jpg", "top/nothing"})) == {
        "top/a/1.jpg": FILES["top/a/1.jpg"]
    }
    with pytest.raises(FileNotFoundError):
        source.open("top/nothing")


def test_archives_in_a_folder_appear_as_if_extracted(store: Store, tmp_path: Path) -> None:
    store({"one/1.txt": b"1"}, "zip", name="data/one")
    store({"two/2.txt": b"2"}, "tgz", name="data/two")
    folder = store({"list.txt": b"0", "three/3.txt": b"3"}, "folder")
    store({"three/other.txt": b"no"}, "zip", name="data/three")
    source = open_source(folder, mount=["one.zip", "two.tgz", "three.zip", "four.zip"])
    wanted = {"one/1.txt", "two/2.txt", "list.txt", "three/3.txt"}
    assert wanted <= set(source.names)
    assert "three/other.txt" not in source.names, "the extracted folder goes before the archive"
    assert source.sequential
    assert dict(source.stream(wanted)) == {
        "list.txt": b"0", "three/3.txt": b"3", "one/1.txt": b"1", "two/2.txt": b"2"
    }  # fmt: skip


@pytest.mark.parametrize("form", ["zip", "tar", "tgz"])
@pytest.mark.parametrize(
    "name", ["../up.jpg", "a/../../up.jpg", "/etc/x.jpg", "C:\\x.jpg", "..\\x"]
)
def test_a_name_that_leads_out_of_the_archive_is_refused(
    store: Store, form: str, name: str
) -> None:
    path = store({"a/1.jpg": b"fine", name: b"not"}, form)
    with pytest.raises(MetadriftError, match="leads out of it"):
        open_source(path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_a_link_or_device_in_a_tar_is_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("a/1.jpg")
    info.type, info.linkname = kind, "../../secret"
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.addfile(info)
    with pytest.raises(MetadriftError, match="a link or another special file"):
        open_source(tmp_path / "x.tar")


def test_a_link_or_an_encrypted_file_in_a_zip_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("a/1.jpg")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(info, "../../secret")
    with pytest.raises(MetadriftError, match="a link or another special file"):
        open_source(tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr("a/1.jpg", "text")
    data = bytearray((tmp_path / "y.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "y.zip").write_bytes(data)
    with pytest.raises(MetadriftError, match="is encrypted"):
        open_source(tmp_path / "y.zip")


def test_links_in_a_folder_may_not_lead_out_of_it(store: Store, tmp_path: Path) -> None:
    folder = store(FILES)
    os.symlink(folder / "top/a/1.jpg", folder / "top/a/same.jpg")
    assert "top/a/same.jpg" in open_source(folder).names
    (tmp_path / "secret").write_bytes(b"!")
    os.symlink(tmp_path / "secret", folder / "top/a/out.jpg")
    with pytest.raises(MetadriftError, match="a link that leads out"):
        open_source(folder)
    os.unlink(folder / "top/a/out.jpg")
    os.symlink(folder / "top", folder / "top/a/round")
    with pytest.raises(MetadriftError, match="a link to a folder"):
        open_source(folder)


@pytest.mark.parametrize("form", ["zip", "tgz"])
def test_an_archive_that_would_swell_is_refused(
    store: Store, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store({"a/1.jpg": b"\0" * 300_000, "a/2.jpg": b"\0" * 300_000}, form)
    open_source(path)
    monkeypatch.setattr(archive_check, "MAX_TOTAL_BYTES", 500_000)
    with pytest.raises(MetadriftError, match=r"would take more than .*a/2.jpg"):
        open_source(path)
    monkeypatch.setattr(archive_check, "MAX_MEMBER_BYTES", 200_000)
    with pytest.raises(MetadriftError, match=r"would take more than .*a/1.jpg"):
        open_source(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_the_same_name_twice_is_refused(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"x.{form}"
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for text in ("one", "two"):
                archive.writestr("a/1.jpg", text)
    else:
        with tarfile.open(path, "w") as tar:
            for _ in range(2):
                tar.addfile(tarfile.TarInfo("a/1.jpg"), io.BytesIO())
    with pytest.raises(MetadriftError, match="twice"):
        open_source(path)


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.rar").write_bytes(b"Rar!")
    with pytest.raises(MetadriftError, match="neither a folder nor a zip, tar or tgz"):
        open_source(tmp_path / "x.rar")
    with pytest.raises(MetadriftError, match="there is no file or folder"):
        open_source(tmp_path / "nothing")


@pytest.mark.parametrize("form", ["zip", "tar", "tgz"])
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_cut_and_changed_archives_give_one_clear_error_or_true_content(
    store: Store, form: str, data: st.DataObject
) -> None:
    path = store(FILES, form)
    whole = bytearray(path.read_bytes())
    if data.draw(st.booleans(), label="cut"):
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    else:
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(whole)
    try:
        source = open_source(path)
        for name in source.names:
            try:
                with source.open(name) as file:
                    found = file.read()
            except READ_ERRORS:
                continue
            if form == "zip" and name in FILES:  # tar has no checksum of its content, zip has
                assert found == FILES[name]
    except MetadriftError as error:
        assert str(path) in str(error)  # noqa: PT017
