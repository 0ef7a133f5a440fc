"""The live view."""

import json
import os
import time

import pytest

from metadrift.cli import main
from metadrift.errors import MetadriftError
from metadrift.experiments.states import states_of


def test_once_shows_every_run_and_how_far_it_is(tmp_path, write_comparison, capsys):
    going = "m2d3-pets-protonet-1shot-seed1"
    variants = {"[red]x[/red]": "reservoir", "m2d3-pets": "m2d3-pets"}
    folder = write_comparison(tmp_path / "c", variants, unfinished=[going])
    assert main(["watch", str(folder), "--once"]) == 0
    shown = capsys.readouterr().out
    assert "3 of 4 runs done" in shown
    line = next(line for line in shown.splitlines() if going in line)
    assert "running" in line
    assert "40/410" in line
    assert "0.010 / 0.100" in line


def test_json_is_for_machines(comparison, capsys):
    assert main(["watch", str(comparison), "--json"]) == 0
    states = json.loads(capsys.readouterr().out)
    assert [state["state"] for state in states] == ["done"] * 8


def test_a_run_that_writes_nothing_any_more_is_silent(tmp_path, write_comparison):
    name = "reservoir-protonet-1shot-seed0"
    folder = write_comparison(tmp_path / "c", {"reservoir": "reservoir"}, unfinished=[name])
    old = time.time() - 600
    os.utime(folder / name / "metrics.jsonl", (old, old))
    assert [state.state for state in states_of(folder)] == ["silent", "done"]


def test_a_run_that_was_asked_to_stop_is_not_shown_as_running(tmp_path, write_comparison):
    name = "reservoir-protonet-1shot-seed0"
    folder = write_comparison(tmp_path / "c", {"reservoir": "reservoir"}, unfinished=[name])
    assert states_of(folder)[0].state == "running"
    (folder / name / ".lock").unlink()
    assert states_of(folder)[0].state == "stopped"


def test_a_folder_of_runs_and_comparisons_shows_all_of_them(tmp_path, write_comparison, capsys):
    name = "reservoir-protonet-1shot-seed0"
    one = write_comparison(tmp_path / "runs" / "c", {"reservoir": "reservoir"})
    (one / name).rename(tmp_path / "runs" / "a run")
    (tmp_path / "runs" / "else").mkdir()
    shown = [(state.run, state.state) for state in states_of(tmp_path / "runs")]
    assert shown == [("a run", "done"), (name, "waiting"), (f"{name[:-1]}1", "done")]
    assert main(["watch", str(tmp_path / "runs" / "else")]) == 1
    assert "and holds none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("metrics.jsonl", '{"step": "many"}\n', "step must be a whole number"),
        ("summary.json", '{"steps": 3, "accuracy": 5}', "accuracy must be a table"),
        ("summary.json", '{"steps": 3, "accuracy": {"mean": 1e999}}', "not a finite number"),
        ("summary.json", "[" * 99_999, "nested too deeply"),
    ],
)
def test_damaged_files_of_a_run_get_one_sentence(tmp_path, write_comparison, file, text, says):
    folder = write_comparison(tmp_path / "c", {"reservoir": "reservoir"})
    (folder / "reservoir-protonet-1shot-seed0" / file).write_text(text)
    with pytest.raises(MetadriftError, match=says):
        states_of(folder)


def test_without_a_terminal_a_finished_run_is_told_in_one_line(comparison, capsys):
    assert main(["watch", str(comparison / "reservoir-protonet-1shot-seed0")]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("reservoir-protonet-1shot-seed0: done, step 100/410, accuracy % 50.0")
