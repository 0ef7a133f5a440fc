"""The grids of the published comparisons can be read, and their pages' names exist."""

import re
from pathlib import Path

import pytest

from metadrift import registry
from metadrift.experiments.grid import load_grid

ROOT = Path(__file__).parents[2]
GRIDS = sorted((ROOT / "benchmarks" / "results").glob("*.toml"))
TEMPLATES = sorted((ROOT / "docs" / "results").glob("*.jinja"))


@pytest.fixture(autouse=True)
def own_code(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "results")
    registry.allow("floors:Floors", "fresher:Fresher", "rehearsal:OneCopy")


@pytest.mark.parametrize("file", GRIDS, ids=lambda file: file.stem)
def test_every_grid_has_runs_that_can_start(file):
    assert len(load_grid(file).cells()) >= 4


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_a_page_names_only_variants_that_its_grid_has(file):
    named = re.findall(r'\b(?:gain|variance)\("([\w-]+)", "([^"]+)"', file.read_text())
    assert named
    for name, variant in named:
        grid = load_grid(ROOT / "benchmarks" / "results" / f"{name}.toml")
        assert variant in {cell.variant for cell in grid.cells()}
