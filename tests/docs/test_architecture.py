"""The architecture page names every room in the order of the import contract, and real files."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SRC = ROOT / "src" / "metadrift"


def test_the_rooms_stand_in_the_order_of_the_import_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = contract["contracts"][0]["layers"]
    rooms = [layer.strip("()").removeprefix("metadrift.") for layer in reversed(layers)]
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == rooms


def test_every_module_and_room_is_in_the_contract():
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    there = {path.stem for path in SRC.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert there - {"__init__", "__main__", "__pycache__", "py"} <= named


def test_every_file_on_the_path_of_a_batch_exists():
    files = re.findall(r"`(\w+/\w+\.py)`", PAGE)
    assert files
    assert [file for file in files if not (SRC / file).is_file()] == []
