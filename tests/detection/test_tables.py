"""Tables of text for `metadrift detect`, and the detector with river's interface."""

import io
import json

import numpy as np
import pytest

from metadrift.cli import main
from metadrift.detection import DriftDetector
from metadrift.errors import MetadriftError, UsageError


@pytest.fixture
def table(tmp_path):
    """A table with a time, two channels and a jump at row 150; every tenth `b` is missing."""
    rng = np.random.default_rng(0)
    lines = ["time;a;b"]
    for step in range(300):
        a, b = rng.normal(4 * (step >= 150), 1, 2)
        lines.append(f"day {step};{a:.4f};{'' if step % 10 == 9 else f'{b:.4f}'}")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines))
    return path


FORM = ["--delimiter", ";", "--time", "time", "--window", "10", "--json"]


def test_columns_are_chosen_and_rows_with_gaps_are_skipped(table, capsys, monkeypatch):
    assert main(["detect", str(table), *FORM, "--missing", "skip"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert (both["steps"], both["dimensions"]) == (270, 2)
    assert main(["detect", str(table), *FORM, "--columns", "a"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert (one["steps"], one["dimensions"]) == (300, 1)
    assert abs(one["changes"][0]["started_at"] - 150) < 8
    monkeypatch.setattr("sys.stdin", io.StringIO(table.read_text()))
    assert main(["detect", "-", *FORM, "--columns", "2"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["changes"] == one["changes"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--delimiter", ";", "--time", "time"], "line 11, column 3 (b): the value is missing"),
        (["--delimiter", ";"], "line 2, column 1 (time): 'day 0' is not a number"),
        (["--delimiter", ";", "--columns", "c"], "--columns: {path} has no column 'c'"),
        (["--delimiter", ";", "--time", "tim"], "--time: {path} has no column 'tim'; did you mean"),
        (["--delimiter", ";;"], "--delimiter must be one character, not ';;'"),
    ],
)
def test_a_wrong_table_is_one_sentence(words, sentence, table, capsys):
    assert main(["detect", str(table), *words]) in (1, 2)
    assert sentence.format(path=table) in capsys.readouterr().err


def test_options_of_tables_are_refused_for_arrays(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.zeros((9, 2)))
    assert main(["detect", str(tmp_path / "x.npy"), "--columns", "a"]) == 2
    assert "is no table of text" in capsys.readouterr().err


def test_a_column_is_not_watched_and_left_aside(table, capsys):
    assert main(["detect", str(table), *FORM, "--columns", "time"]) == 2
    assert "--time leaves 'time' aside, and --columns watches it" in capsys.readouterr().err


def test_rivers_protocol_with_numbers_vectors_and_names():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(0, 1, (250, 2)), rng.normal(3, 1, (100, 2))])
    vectors, names = DriftDetector(window=15), DriftDetector(window=15)
    found = []
    for step, (a, b) in enumerate(x):
        assert vectors.update([a, b]) is None
        names.update({"a": a, "b": b} if step % 2 else {"b": b, "a": a})
        assert names.drift_detected == vectors.drift_detected
        if vectors.drift_detected:
            found.append(vectors.change.started_at)
    assert found == [250]
    assert not vectors.drift_detected
    with pytest.raises(MetadriftError, match="the same names; 'c' is not in all"):
        names.update({"a": 1.0, "b": 2.0, "c": 3.0})
    with pytest.raises(UsageError, match="mode must be default or fourier"):
        DriftDetector(mode="paper")


def test_a_detector_of_a_file_watches_a_table(table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from metadrift.detection import Change, ChangeDetector\n"
        "class At100(ChangeDetector):\n"
        "    def __init__(self, config):\n        super().__init__()\n"
        "    def _take(self, vector):\n        self.step += 1\n"
        "        return Change(100, 100, 1.0, 0.5) if self.step == 101 else None\n"
    )
    words = ["detect", str(table), *FORM, "--columns", "a", "--detector", "mine.py:At100"]
    assert main(words) == 0
    assert [c["at_step"] for c in json.loads(capsys.readouterr().out)["changes"]] == [100]
    assert main([*words, "--false-alarm-every", "99"]) == 2
    assert main(["detect", str(table), *FORM, "--detector", "foorier"]) == 2
    assert "did you mean 'fourier'?" in capsys.readouterr().err
