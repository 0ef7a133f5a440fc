"""The installed command as a new user meets it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
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


def test_an_output_that_is_closed_is_no_reason_to_fail(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)  # as `metadrift ... >&-` has it
    assert main(["data", "list", "--data", str(tmp_path)]) == 0
    sys.stdout.close()


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_an_output_that_is_full_or_ends_is_told_in_a_sentence(word):
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run([METADRIFT, word], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "metadrift: No space left on device\n")
    away, end = os.pipe()
    os.close(away)
    done = subprocess.run([METADRIFT, word], stdout=end, stderr=subprocess.PIPE, text=True)
    os.close(end)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"metadrift {__version__}\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nonsense"], "there is no command 'nonsense'; `metadrift --help` lists them"),
        (["run", "--method", "resevoir"], "no method 'resevoir'; did you mean 'reservoir'?"),
        (["run", "--learner", "protonets"], "no learner 'protonets'; did you mean 'protonet'?"),
        (["compare", "--methods", "mir", "joynt"], "no method 'joynt'; did you mean 'joint'?"),
        (["rnu"], "there is no command 'rnu'; did you mean 'run'?"),
        (["data"], "metadrift: data needs one of: list, download"),
        (["data", "lst"], "difficulty; did you mean 'list'?"),
        (["paper"], "metadrift paper: name an experiment first: "),
        (["paper", "revist"], "the paper has no experiment 'revist'; did you mean 'revisit"),
    ],
)
def test_wrong_use_is_answered_with_code_2(words, says, capsys):
    assert main(words) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["data", "import", "folde", "x"], "metadrift data import: did you mean 'folder'?"),
    ],
)
def test_a_value_that_is_nearly_right_is_answered_with_the_right_one(words, says, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("library", ["_hashlib", "_multiarray_umath", "libtorch_cpu"])
def test_ctrl_c_while_the_program_loads_says_stopped(library, tmp_path):
    command = [METADRIFT, "resume", tmp_path]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        if not maps.exists():
            pytest.skip("this system does not say what a process has loaded")
        while library not in maps.read_text():
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert said == "metadrift resume: stopped\n"
    assert process.returncode == 130


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
        (["--ways-in-training", "12"], "--ways-in-training must be a multiple of the 5 ways"),
        (["--learner", "anil", "--ways-in-training", "10"], "leave --ways-in-training out"),
        (["--replay.dark", "1"], "add --transform.turn 0 or --fresh off"),
        (["--method", "reservoir", "--labels", "oracle"], "reservoir has no latent domains"),
        (
            ["--replay.dark", "1", "--transform.turn", "0", "--transform.resplit", "1"],
            "--transform.resplit draws other queries",
        ),
        (["--transform.turn", "1.5"], "--transform.turn must be within 0..1, not 1.5"),
        (["--transform.shift", "0.5"], "--transform.shift must be within 0..0.5"),
        (["--test-precision", "-1"], "--test-precision must be at least 0"),
        (["--tasks-per-step", "0"], "--tasks-per-step must be at least 1"),
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


def small_run(tmp_path, benchmark, *words):
    known = ["run", "--benchmark", benchmark, "--out", tmp_path, "--name", "mine", "--ways", 3]
    known += ["--queries", 2, "--test-tasks", 8, "--stage-tasks", 0, "--learn.filters", 4]
    return metadrift(*known, "--scale", 0.1, *words)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--ways", 6], "pack 'dark' has 5 test classes"),
        (["--ways", 40], "a 40-way task needs 40"),
        (["--split", "val", "--queries", 8], "of 8; a 3-way task needs 3"),
        (["--memory.capacity", -3], "--memory.capacity must be at least 1"),
        (["--device", "cuda"], "there is no cuda device here"),
        (["--only", "nowhere"], "has no domain 'nowhere'"),
        (["--threads", 0], "--threads must be at least 1"),
        (["--stage-tasks", -1], "--stage-tasks must be at least 0"),
    ],
)
def test_a_run_that_is_refused_does_not_take_its_name(wrong, says, tmp_path, tiny_benchmark):
    refused = small_run(tmp_path, tiny_benchmark, *wrong)
    assert refused.returncode in (1, 2)
    assert says in refused.stderr
    assert refused.stderr.startswith("metadrift run: ")
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_without_a_checkpoint_is_used_again(tmp_path, tiny_benchmark):
    words = ["--method", "mer", "--checkpoint-every", 1000]
    failed = small_run(tmp_path, tiny_benchmark, *words, "--baseline.mer-alpha", "1e38")
    assert failed.returncode == 1
    assert "there is no checkpoint yet" in failed.stderr
    corrected = small_run(tmp_path, tiny_benchmark, *words)
    assert corrected.returncode == 0, corrected.stderr
    lines = (tmp_path / "mine" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines].count("began") == 1
    taken = small_run(tmp_path, tiny_benchmark, *words)
    assert "exists already: `metadrift resume" in taken.stderr


@pytest.mark.parametrize("file", ["notes.txt", "config.toml", "benchmark.toml"])
def test_a_folder_with_files_of_a_person_is_left_alone(file, tmp_path, tiny_benchmark):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / file).write_text("shots = 1")
    refused = small_run(tmp_path, tiny_benchmark)
    assert refused.returncode == 1
    assert "exists already" in refused.stderr
    assert (tmp_path / "mine" / file).read_text() == "shots = 1"
    assert len(list((tmp_path / "mine").iterdir())) == 1


@pytest.mark.parametrize("method", ["reservoir", "independent"])
def test_one_test_task_has_a_mean_and_no_interval(method, tmp_path, tiny_benchmark):
    done = small_run(tmp_path, tiny_benchmark, "--test-tasks", 1, "--method", method)
    assert done.returncode == 0, done.stderr
    assert "±" not in done.stdout
    assert "mean" in done.stdout
    again = metadrift("resume", tmp_path / "mine")
    assert again.returncode == 0, again.stderr
    page = metadrift("report", tmp_path / "mine")
    assert page.returncode == 0, page.stderr


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


@pytest.mark.parametrize("words", [["run"], ["compare"], ["paper"], ["paper", "pnet"]])
def test_help_is_short_and_begins_with_examples_and_help_all_lists_every_setting(words):
    short = metadrift(*words, "--help").stdout
    every = metadrift(*words, "--help-all").stdout
    assert len(short.splitlines()) < 60
    assert short.index("examples:") < short.index("settings that people change most:")
    assert "None" not in short
    for setting in re.findall(r"^  (--[a-z-]+)", short, re.MULTILINE):
        assert re.search(rf"{setting}\b", every), setting
    assert "--detection.window" not in short
    assert "--detection.window" in every


def test_resuming_what_is_no_run_says_so(tmp_path, capsys):
    assert main(["resume", str(tmp_path)]) == 1
    assert "no config.toml" in capsys.readouterr().err
