"""The installed command as a new user meets it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from metadrift import __version__
from metadrift.cli import COMMANDS, main

METADRIFT = Path(sys.executable).with_name("metadrift")


def metadrift(*words):
    return subprocess.run([METADRIFT, *map(str, words)], capture_output=True, text=True)


def test_the_overview_lists_every_command(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in COMMANDS)


def test_the_overview_loads_nothing_heavy():
    code = "import sys, metadrift.cli; metadrift.cli.main(['--help']); print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(said.stdout.split())
    assert not {"torch", "numpy", "scipy", "tyro", "rich", "PIL"} & loaded


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"metadrift {__version__}\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonsense"], "no command 'nonsense'"),
        (["data"], "metadrift data needs one of"),
        (["data", "nonsense"], "metadrift data needs one of"),
    ],
)
def test_wrong_use_is_answered_with_code_2(words, says, capsys):
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_a_setting_out_of_range_is_wrong_use():
    done = metadrift("run", "--scale", "7")
    assert done.returncode == 2
    assert "--scale must be above 0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--method", "gss", "--replay.balance"], "gss has no latent domains, so --replay.balance"),
        (["--method", "joint", "--replay.dark", "1"], "joint replays nothing, so --replay.dark"),
        (["--method", "mer", "--replay.dark", "1"], "mer has no replay term"),
        (["--replay.dark", "1"], "add --transform.turn 0 or --fresh off"),
        (["--method", "reservoir", "--labels", "oracle"], "reservoir has no latent domains"),
        (["--transform.turn", "1.5"], "--transform.turn must be within 0..1, not 1.5"),
        (["--transform.shift", "0.5"], "--transform.shift must be within 0..0.5"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused_in_one_sentence(words, says, capsys, tmp_path):
    assert main(["run", *words, "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_run_through_the_command_line(tmp_path, tiny_benchmark):
    words = ["run", "--method", "reservoir", "--benchmark", tiny_benchmark, "--ways", 3]
    words += ["--queries", 2, "--test-tasks", 8, "--stage-tasks", 0, "--learn.filters", 4]
    done = metadrift(*words, "--out", tmp_path, "--name", "mine")
    assert done.returncode == 0, done.stderr
    assert "memory: 8 batches" in done.stderr
    assert f"run folder: {tmp_path / 'mine'}" in done.stdout
    again = metadrift("run", "--config", tmp_path / "mine" / "config.toml", "--out", tmp_path)
    assert again.returncode == 0, again.stderr
    one, two = (json.loads(f.read_text()) for f in tmp_path.glob("*/summary.json"))
    assert one["accuracy"] == two["accuracy"]
    taken = metadrift(*words, "--out", tmp_path, "--name", "mine")
    assert taken.returncode == 1
    assert "metadrift resume" in taken.stderr


@pytest.mark.parametrize("name", ["..", "a/b"])
def test_a_run_cannot_be_named_out_of_its_folder(name, tmp_path, capsys):
    assert main(["run", "--name", name, "--out", str(tmp_path)]) == 2
    assert "name of a folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*name.split(), "--help"])
    assert stop.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 6


def test_resuming_what_is_no_run_says_so(tmp_path, capsys):
    assert main(["resume", str(tmp_path)]) == 1
    assert "no config.toml" in capsys.readouterr().err
