"""Archives that swell, lead out or never end are refused; tests/data has the plain ones."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest

from metadrift.data.importers import archives as archive_check
from metadrift.data.importers import plan_import
from metadrift.data.importers.plan import Options
from metadrift.data.importers.source import open_source
from metadrift.errors import MetadriftError

NOTHING = b"00000000000\0"


def header(name, size, kind=b"0"):
    """A tar header by hand: tarfile would not write such sizes."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:124] = b"0000644\0" + 2 * b"0000000\0"
    block[124:136] = size
    block[136:148], block[156:157], block[257:265] = NOTHING, kind, b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("kind", [b"0", b"x", b"g", b"L", b"5"])
def test_a_negative_size_is_refused_and_does_not_lead_round_in_a_circle(kind, tmp_path):
    minus = (-512 & ((1 << 96) - 1)).to_bytes(12, "big")
    data = header(b"a/1.jpg", minus, kind) + header(b"a/2.jpg", NOTHING) + bytes(1024)
    (tmp_path / "x.tar").write_bytes(data)
    with pytest.raises(MetadriftError, match=r"is (refused|damaged)"):
        open_source(tmp_path / "x.tar")


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K"])
def test_a_header_that_claims_gigabytes_is_refused_before_it_is_read(kind, tmp_path):
    with gzip.open(tmp_path / "x.tar.gz", "wb", compresslevel=1) as file:
        file.write(header(b"a/1.jpg", b"%011o\0" % (3 << 30), kind) + bytes(3 << 20))
    with pytest.raises(MetadriftError, match="3221225472 bytes would have to be read at once"):
        open_source(tmp_path / "x.tar.gz")


def test_a_tail_that_never_seems_to_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_check, "MAX_TOTAL_BYTES", 4 << 20)
    with gzip.open(tmp_path / "x.tgz", "wb", compresslevel=1) as file:
        file.write(header(b"a/1.jpg", NOTHING) + bytes(6 << 20))
    with pytest.raises(MetadriftError, match="it unpacks to more than"):
        open_source(tmp_path / "x.tgz")


def test_a_file_too_large_to_be_read_whole_is_refused(tmp_path, monkeypatch):
    from metadrift.data.importers import source

    monkeypatch.setattr(source, "MAX_AT_ONCE", 1 << 20)
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("a/1.jpg")
        info.size = 2 << 20
        archive.addfile(info, io.BytesIO(bytes(2 << 20)))
    opened = open_source(tmp_path / "x.tgz")
    with pytest.raises(MetadriftError, match="would have to be read at once"):
        list(opened.stream(["a/1.jpg"]))


def test_arrays_that_would_swell_are_refused_before_they_are_read(tmp_path, monkeypatch):
    np.savez_compressed(
        tmp_path / "x.npz", images=np.zeros((40, 90, 90), np.uint8), labels=[0] * 40
    )
    monkeypatch.setattr(archive_check, "MAX_TOTAL_BYTES", 100_000)
    with pytest.raises(MetadriftError, match="would take more than"):
        plan_import("npz", tmp_path / "x.npz", Options())


def test_a_file_that_is_larger_than_its_archive_says_is_not_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/1.jpg", bytes(1 << 20))
    data = bytearray((tmp_path / "x.zip").read_bytes())
    at = data.index(b"PK\x01\x02")
    data[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    (tmp_path / "x.zip").write_bytes(data)
    opened = open_source(tmp_path / "x.zip")
    with opened.open("a/1.jpg") as file, pytest.raises(zipfile.BadZipFile, match="CRC"):
        file.read()  # of the first 1000 bytes


@pytest.mark.parametrize(
    "kind", ["folder", "omniglot", "cub", "aircraft", "miniimagenet", "quickdraw", "necessities"]
)
def test_every_importer_refuses_an_archive_that_leads_out(kind, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("cat/1.png", b"")
        archive.writestr("../../evil.txt", b"")
    with pytest.raises(MetadriftError, match="leads out of it"):
        plan_import(kind, tmp_path / "x.zip", Options())
