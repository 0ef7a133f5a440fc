"""The live view."""

import json
import os
import time

from metadrift.cli import main
from metadrift.commands.watch import states_of


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


def test_without_a_terminal_a_finished_run_is_told_in_one_line(comparison, capsys):
    assert main(["watch", str(comparison / "reservoir-protonet-1shot-seed0")]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("reservoir-protonet-1shot-seed0: done, step 100/410, accuracy % 50.0")
