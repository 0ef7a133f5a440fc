"""The pages of the documentation, each with its code blocks."""

from pathlib import Path

import pytest

from page_blocks import blocks_of

ROOT = Path(__file__).parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [name for name in TOP if (ROOT / name).exists()]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))


@pytest.fixture(params=PAGES)
def page(request):
    """The path of a page from the root, once for each."""
    return request.param


@pytest.fixture
def blocks(page):
    return blocks_of((ROOT / page).read_text(encoding="utf-8"))
