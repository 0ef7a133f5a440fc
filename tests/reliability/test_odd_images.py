"""Every odd kind of image in one import: used, or left out with its reason, and never a crash."""

import io
import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from metadrift.cli import main
from metadrift.data.pack import open_pack


def saved(image, form, **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def png_that_claims(width, height):
    def chunk(kind, data):
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.fixture(scope="module")
def odd():
    """Name of the file to its bytes, and whether it can be used."""
    photograph = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8))
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera lay on its side
    palette = photograph.convert("P")
    palette.info["transparency"] = 3
    frames = [Image.new("L", (9, 9), 80 * n) for n in range(3)]
    whole = saved(photograph, "JPEG")
    return {
        "truncated.jpg": (whole[: len(whole) // 2], False),
        "empty.jpg": (b"", False),
        "no-image.jpg": (b"<html>not found</html>", False),
        "huge.png": (png_that_claims(20_000, 20_000), False),
        "cmyk.jpg": (saved(photograph.convert("CMYK"), "JPEG"), True),
        "sixteen-bit.png": (saved(Image.new("I;16", (9, 9), 40_000), "PNG"), True),
        "palette.png": (saved(palette, "PNG"), True),
        "animated.gif": (saved(frames[0], "GIF", save_all=True, append_images=frames[1:]), True),
        "turned.jpg": (saved(photograph, "JPEG", exif=turned), True),
        "one-pixel.png": (saved(Image.new("RGB", (1, 1), "red"), "PNG"), True),
    }


@pytest.fixture
def folder(odd, tmp_path):
    for name, (data, _) in odd.items():
        home = tmp_path / "odd" / name.split(".")[0]
        home.mkdir(parents=True)
        (home / name).write_bytes(data)
    return tmp_path / "odd"


def test_each_odd_image_is_used_or_listed_with_a_reason(odd, folder, tmp_path, capsys):
    words = ["data", "import", "folder", str(folder), "--out", str(tmp_path / "data")]
    assert main([*words, "--size", "8", "--workers", "1", "--json"]) == 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    pack = open_pack(tmp_path / "data" / "odd")
    usable = {name.split(".")[0] for name, (_, use) in odd.items() if use}
    assert set(pack.class_names) == usable
    listed = json.loads(said.out)["unreadable"]
    reasons = {row["name"].split("/")[-1]: row["reason"] for row in listed}
    assert set(reasons) == {name for name, (_, use) in odd.items() if not use}
    assert all(reasons.values())
    assert "pixels" in reasons["huge.png"]
    assert reasons["empty.jpg"] == "empty"


def test_strict_stops_at_the_first_and_writes_nothing(folder, tmp_path, capsys):
    words = ["data", "import", "folder", str(folder), "--out", str(tmp_path / "data"), "--strict"]
    assert main([*words, "--size", "8", "--workers", "1"]) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert list((tmp_path / "data").iterdir()) == []
