from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metadrift.data.library import data_folder, find_pack, list_packs
from metadrift.data.pack import Pack, open_pack, write_pack
from metadrift.data.preview import Sheet, draw_sheet
from metadrift.errors import MetadriftError


def write(path: Path, classes: int = 3, channels: int = 1) -> Pack:
    rows = [
        (
            f"a rather long name of class {c}",
            "train",
            np.full((4, 10, 10, channels), 60 * c, np.uint8),
        )
        for c in range(classes)
    ]
    return open_pack(write_pack(path, path.name, rows, source="", licence=""))  # type: ignore[arg-type]


def test_the_data_folder_is_the_option_then_the_variable_then_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METADRIFT_DATA", str(tmp_path / "named"))
    assert data_folder(tmp_path) == tmp_path
    assert data_folder() == tmp_path / "named"
    monkeypatch.delenv("METADRIFT_DATA")
    assert "metadrift" in str(data_folder())


def test_a_pack_is_found_by_name_and_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "pets")
    assert find_pack("pets", tmp_path).name == "pets"
    assert find_pack(tmp_path / "pets").name == "pets"
    assert find_pack(str(tmp_path / "pets")).name == "pets"
    monkeypatch.chdir(tmp_path)
    assert find_pack("pets", tmp_path / "elsewhere").name == "pets"


@pytest.mark.parametrize(
    ("name", "command"),
    [("cub", "import cub SOURCE"), ("mine", "import KIND SOURCE"), ("glyphs", "generate glyphs")],
)
def test_a_missing_pack_names_the_folder_and_the_command_that_makes_it(
    tmp_path: Path, name: str, command: str
) -> None:
    with pytest.raises(MetadriftError) as caught:
        find_pack(name, tmp_path)
    assert f"`metadrift data {command} --out {tmp_path}" in str(caught.value)


def test_listing_shows_whole_and_damaged_packs_and_nothing_else(tmp_path: Path) -> None:
    for name in ("b", "a", "broken"):
        write(tmp_path / name)
    (tmp_path / "broken/images.npy").unlink()
    (tmp_path / "folder").mkdir()
    write(tmp_path / ".hidden")
    found = list_packs(tmp_path)
    assert [pack.name for pack in found if isinstance(pack, Pack)] == ["a", "b"]
    assert [str(error) for error in found if isinstance(error, MetadriftError)] == [
        f"{tmp_path / 'broken'} is not a whole pack: it has no images.npy"
    ]
    assert list_packs(tmp_path / "nowhere") == []


@pytest.mark.parametrize("channels", [1, 3])
def test_a_sheet_has_a_row_a_class_with_its_images(tmp_path: Path, channels: int) -> None:
    pack = write(tmp_path / "p", channels=channels)
    sheet = Sheet(classes=10, images=4, cell=10)
    picture = draw_sheet(pack, sheet, np.random.default_rng(0))
    assert picture.size == (200 + 4 * 12 + 2, 3 * 12 + 2)
    pixels = np.asarray(picture)
    for c in range(3):
        assert (pixels[2 + 12 * c : 12 + 12 * c, 200:210] == 60 * c).all()
        assert (pixels[2 + 12 * c : 12 + 12 * c, :200] < 100).any(), "the name is written"
    again = draw_sheet(pack, sheet, np.random.default_rng(0))
    assert picture.tobytes() == again.tobytes()
    with pytest.raises(MetadriftError, match="no val classes"):
        draw_sheet(pack, Sheet("val"), np.random.default_rng(0))
