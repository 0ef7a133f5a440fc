"""The table of `make bench`: it fails when a ratio crosses its floor, and says which."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import bench
from bench_table import ANSWERS, Row, answers, judge, read_floors

FLOORS = """
[speed]
"peer" = { least = 2.0, floor = 1.5 }
"limit" = { most = 1.05, floor = 1.2, quick = false }
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """suite(rows, ...): the exit code of the suite with one part of these rows, and its folder."""
    (tmp_path / "floors.toml").write_text(FLOORS)

    def run(rows, **more):
        part = type(sys)("made_up_part")
        part.rows = lambda quick: rows
        monkeypatch.setitem(sys.modules, "made_up_part", part)
        monkeypatch.setattr(bench, "PARTS", {"speed": "made_up_part"})
        files = {"out": tmp_path / "out", "floors": tmp_path / "floors.toml"}
        return bench.main(bench.Arguments(**files, **more)), tmp_path / "out"

    return run


def test_ratios_on_the_right_side_pass_and_are_written(suite):
    code, out = suite([Row("peer", "peer / ours", 1.7, "3 ms"), Row("limit", "ours / limit", 1.1)])
    assert code == 0
    part = json.loads((out / "bench.json").read_text())["parts"]["speed"]
    assert [row["ratio"] for row in part["rows"]] == [1.7, 1.1]
    line = "| peer | peer / ours | 1.7 (short) | at least 2 | at least 1.5 | 3 ms |"
    assert line in (out / "bench.md").read_text()


@pytest.mark.parametrize(("peer", "limit"), [(1.4, 1.0), (3.0, 1.3), (float("nan"), 1.0)])
def test_a_ratio_beyond_its_floor_fails_and_is_named(suite, capsys, peer, limit):
    code, _ = suite([Row("peer", "", peer), Row("limit", "", limit)])
    assert code == 1
    said = " ".join(capsys.readouterr().out.split())
    name = "limit" if limit > 1.2 else "peer"
    assert f"bench: speed, {name}: the ratio is" in said


def test_a_row_that_is_judged_cannot_vanish(suite):
    code, _ = suite([Row("peer", "", 2.0)])
    assert code == 1


def test_what_could_not_be_measured_is_said_and_does_not_fail(suite):
    rows = [Row("peer", "", None, "it does not install"), Row("limit", "", 1.0)]
    code, out = suite(rows)
    assert code == 0
    assert "it does not install" in (out / "bench.md").read_text()


def test_a_quick_run_is_not_judged_by_what_it_is_too_short_for(suite):
    code, _ = suite([Row("peer", "", 2.0), Row("limit", "", 1.3)], quick=True)
    assert code == 0


def test_a_page_gets_the_table_between_its_marks_only(suite, tmp_path):
    page = tmp_path / "page.md"
    marked = "".join(f"<!-- {m} -->\nold\n<!-- end of {m} -->\n" for m in ("answers", "bench"))
    page.write_text(f"before\n{marked}after\n")
    rows = [Row("peer", "peer / ours", 2.0), Row("limit", "", 1.0)]
    for _ in range(2):
        suite(rows, docs=page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("| peer |") == 1


def test_a_part_that_does_not_exist_is_refused(suite):
    with pytest.raises(SystemExit, match="there is no part 'nosuch'"):
        suite([], only=("nosuch",))


def test_the_first_table_answers_from_rows_that_are_judged():
    floors = read_floors(bench.HERE / "floors.toml")
    assert len(ANSWERS) == 10
    for _, part, row in ANSWERS:
        assert row in floors[part]
    row = {"name": "28 px: bf16", "compared": "", "ratio": 1.5, "note": "bf16 2 of 3"}
    found = {"parts": {"step": {"rows": [row]}}}
    lines = answers(found, floors).splitlines()
    assert "| 1.5 (short) (bf16 2 of 3) | at least 1.8 | step, 28 px: bf16 |" in lines[2]
    assert "| not measured yet |" in lines[3]


def test_every_floor_belongs_to_a_part():
    floors = read_floors(bench.HERE / "floors.toml")
    assert set(floors) <= set(bench.PARTS)
    for part in floors:  # nothing measured: each floor must be missed by name
        assert len(judge(part, [], floors, False)) == len(floors[part])
