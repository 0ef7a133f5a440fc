"""docs/results.md is what docs/make_results.py makes of the measured files."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("make_results", ROOT / "docs" / "make_results.py")
make_results = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_results)


def render(folder):
    return make_results.render(make_results.Page(make_results.read_results(folder)))


def row(variant, by_seed, to=None):
    mean = sum(by_seed) / len(by_seed)
    entry = {
        "variant": variant,
        "learner": "protonet",
        "shots": 1,
        "mark": "",
        "seeds": [0, 1, 2],
        "accuracy": {"mean": mean, "sd": 0.01, "ci95": 0.02, "seeds": 3},
        "per_domain": {"birds": {"mean": mean}},
        "forgetting": 0.01,
        "min_share": 0.1,
        "shares": {"birds": 1.0},
        "detection": None,
        "wall_s": 120.0,
        "by_seed": by_seed,
    }
    if to:
        entry["difference"] = {"to": to, "mean": 0.02, "t95": [0.01, 0.03]}
    return entry


@pytest.mark.parametrize(("page", "template"), make_results.PAGES.items())
def test_the_pages_are_made_from_the_measured_files(page, template):
    made = make_results.render(make_results.Page(make_results.read_results()), template)
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == made


def test_readme_has_the_numbers_of_the_measured_files():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = make_results.Page(make_results.read_results())
    assert make_results.with_numbers(readme, page) == readme


def test_the_longest_comparison_on_equal_terms_is_the_headline():
    result = {"missing": [], "rows": []}
    assert make_results.Page({"equal": result}).headline() == "equal"
    assert make_results.Page({"equal": result, "full-5shot": result}).headline() == "full-5shot"
    unfinished = {"missing": ["one"], "rows": []}
    assert make_results.Page({"equal": result, "full-5shot": unfinished}).headline() == "equal"


def test_gains_are_told_by_what_changes(tmp_path):
    rows = [
        row("8 batches, reservoir", [0.5, 0.52, 0.51]),
        row("8 batches, m2d3-pets", [0.52, 0.54, 0.53], to="8 batches, reservoir"),
    ]
    page = make_results.Page({"memory": {"rows": rows, "missing": []}})
    assert "| 8 batches | 51.0 | 53.0 | +2.0 [+1.0, +3.0] |" in page.gains("memory")
    make_results.draw_gains(page, "memory", tmp_path / "gains.png")
    assert (tmp_path / "gains.png").stat().st_size > 1000


def test_a_measured_comparison_appears_and_an_unfinished_one_does_not(tmp_path):
    result = {
        "rows": [
            row("reservoir, fresh", [0.5, 0.52, 0.51]),
            row("m2d3-pets, fresh", [0.52, 0.54, 0.53], to="reservoir, fresh"),
        ],
        "missing": [],
        "segments": [["birds", 2000]],
        "settings": {},
        "days": ["2026-01-01", "2026-01-02"],
        "versions": [{"metadrift": "0.2.0", "code": "abc", "torch": "2"}],
        "precision": ["bf16"],
    }
    (tmp_path / "full-1shot.json").write_text(json.dumps(result))
    page = render(tmp_path)
    assert "| m2d3-pets, fresh | 53.0 ± 2.0 | +2.0 [+1.0, +3.0] to reservoir, fresh |" in page
    (tmp_path / "full-1shot.json").write_text(json.dumps({**result, "missing": ["one"]}))
    assert "one shot" not in render(tmp_path)


def test_the_seeds_that_a_difference_needs_grow_with_its_spread():
    assert make_results.seeds_needed([0.020, 0.021, 0.022]) == "2"
    assert int(make_results.seeds_needed([0.01, 0.03, 0.02])) > 2
    assert make_results.seeds_needed([0.01, -0.01, 0.001]) == "over 100"
