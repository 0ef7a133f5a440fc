"""The hostile trials: how many there are, that they go on where they stopped, what they write."""

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = ROOT / "benchmarks" / "torture"


@pytest.fixture(scope="module")
def torture():
    """The module that `python benchmarks/torture` runs."""
    before = list(sys.path)
    sys.path.insert(0, str(HOME))
    found = importlib.util.spec_from_file_location("torture_main", HOME / "__main__.py")
    module = importlib.util.module_from_spec(found)
    sys.modules["torture_main"] = module
    found.loader.exec_module(module)
    yield module
    sys.path[:] = before


def test_there_are_more_than_200_trials_of_every_kind(torture):
    kinds = Counter(trial.kind for trial in torture.every_trial())
    assert kinds.total() > 400
    assert len(kinds) > 15
    assert kinds["killed at any moment"] >= 44  # 11 methods, 2 learners, twice
    assert kinds["killed in a checkpoint"] == kinds["killed in the last evaluation"] == 22
    assert kinds["two ranks"] >= 6


def test_the_table_counts_every_end_by_kind(torture):
    ends = ["held", "held", "lost", "hang"]
    results = [
        torture.Result(f"kind {n % 2}", f"trial {n}", 0, "code", end, "seen", 1.0)
        for n, end in enumerate(ends)
    ]
    assert torture.counted(results) == [
        ["kind 0", "2", "1", "1", "0", "0", "0", "0"],
        ["kind 1", "2", "1", "0", "0", "0", "1", "0"],
        ["all", "4", "2", "1", "0", "0", "1", "0"],
    ]
    assert "Tried: 4 of 9 trials" in torture.markdown(results, 9)
    assert "| all | 4 | 2 | 1 | 0 | 0 | 1 | 0 |" in torture.markdown(results, 9)


@pytest.mark.slow
def test_trials_go_on_where_they_were_stopped_and_write_their_table(tmp_path):
    (tmp_path / "page.md").write_text("a\n<!-- torture -->\nold\n<!-- end of torture -->\nb\n")
    command = [sys.executable, HOME, "--out", tmp_path, "--only"]
    command += [f"config.toml with {what}" for what in ("a date", "NaN", "infinity")]
    command += ["--docs", tmp_path / "page.md"]

    def tried(*more):
        done = subprocess.run(
            [*map(str, command), *more],
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lines = (tmp_path / "results.jsonl").read_text().splitlines()
        return [json.loads(line)["name"] for line in lines]

    first = tried("--trials", "1")
    assert len(first) == 1
    every = tried()
    assert every[:1] == first
    assert len(every) == len(set(every)) == 3
    assert tried() == every
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("a\n")
    assert "old" not in page
    assert f"| all | {len(every)} | {len(every)} | 0 | 0 | 0 | 0 | 0 |" in page
