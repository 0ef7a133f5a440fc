"""Small datasets that the tests write themselves, and the way to the real samples."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

Files = dict[str, bytes]
Store = Callable[..., Path]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real samples; a test that needs it is skipped where it is absent."""
    root = Path(__file__).parents[2]
    folder = Path(os.environ.get("METADRIFT_SHARED", root.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"the real samples are not here: {folder} (METADRIFT_SHARED)")
    return folder


@pytest.fixture(scope="session")
def picture() -> Callable[..., bytes]:
    """An image file of one colour."""

    def make(
        colour: str | int | tuple[int, ...] = "red",
        size: tuple[int, int] = (20, 16),
        form: str = "PNG",
        mode: str = "RGB",
        **saving: object,
    ) -> bytes:
        file = io.BytesIO()
        Image.new(mode, size, colour).save(file, form, **saving)
        return file.getvalue()

    return make


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Write files as a folder, a zip, a tar or a tgz, and give its path."""

    def write(files: Files, form: str = "folder", name: str = "data") -> Path:
        if form == "folder":
            for member, data in files.items():
                path = tmp_path / name / member
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            return tmp_path / name
        path = tmp_path / f"{name}.{form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if form == "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for member, data in files.items():
                    archive.writestr(member, data)
            return path
        with tarfile.open(path, {"tar": "w", "tgz": "w:gz"}[form]) as archive:
            for member, data in files.items():
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return path

    return write
