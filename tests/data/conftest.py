"""The way to the real samples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real samples; a test that needs it is skipped where it is absent."""
    root = Path(__file__).parents[2]
    folder = Path(os.environ.get("METADRIFT_SHARED", root.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"the real samples are not here: {folder} (METADRIFT_SHARED)")
    return folder
