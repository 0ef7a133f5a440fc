"""The wheel holds every file of the package. `make package` installs and runs it for real."""

import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(tmp_path):
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="comes with the extra dev")
    (wheel,) = wheels.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "src" / "metadrift"
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert inside == {path.relative_to(package.parent).as_posix() for path in files}
    assert any(name.endswith("builtin-uneven.toml") for name in inside)
