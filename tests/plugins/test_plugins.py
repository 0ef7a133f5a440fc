"""Parts from a user's own file, through the commands; and folders that try to make us load code."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import metadrift
from metadrift import ContinualMetaLearner, TaskGeometry, registry
from metadrift.cli import main
from metadrift.errors import MetadriftError, UsageError
from metadrift.experiments.grid import parse_grid
from metadrift.learners import make_learner
from metadrift.methods import ReplayingMethod
from metadrift.methods.make import make_method
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import RunConfig
from metadrift.runs.record import read_lines
from tiny_runs import assert_same_run

SOURCE = Path(__file__).with_name("mine.py")


@pytest.fixture(autouse=True)
def nothing_is_allowed_yet(monkeypatch):
    monkeypatch.setattr(registry, "_allowed", {})
    monkeypatch.setattr(registry, "_loaded", {})


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with the user's file, to work in."""
    shutil.copy(SOURCE, tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def words(tiny_benchmark):
    return [
        "--benchmark", str(tiny_benchmark), "--scale", "0.2", "--ways", "3", "--queries", "2",
        "--test-tasks", "2", "--stage-tasks", "0", "--checkpoint-every", "5", "--log-every", "2",
        "--threads", "1", "--learn.filters", "4", "--device", "cpu", "--json",
    ]  # fmt: skip


def test_a_method_and_a_learner_of_a_file_run_with_options(mine, words, capsys):
    own = ["--options.times", "3", "--options.temperature", "5"]
    command = ["run", "--method", "mine.py:ReplayTwice", "--learner", "./mine.py:Cosine"]
    assert main([*command, *own, *words]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["method"], summary["learner"]) == ("ReplayTwice", "Cosine")
    assert summary["settings"]["options.times"] == 3
    assert set(summary["versions"]) >= {"plugin ReplayTwice", "plugin Cosine"}
    (folder,) = (mine / "runs").iterdir()
    assert folder.name == "ReplayTwice-Cosine-tiny-1shot-seed0"
    assert {line["times"] for line in read_lines(folder / "metrics.jsonl")} == {3}
    registry._allowed.clear()
    again = ["run", "--config", str(folder / "config.toml"), "--name", "again", "--json"]
    assert main(again) == 2
    assert "nothing but the command line makes metadrift load code" in capsys.readouterr().err
    assert main([*again, "--plugin", "mine.py:ReplayTwice", "mine.py:Cosine"]) == 0
    assert_same_run(folder, mine / "runs" / "again")


def test_a_memory_and_a_sampler_of_a_file_are_used(mine, words, capsys):
    own = ["--memory.rule", "mine.py:Newest", "--name", "kept"]
    assert main(["run", "--method", "reservoir", *own, *words]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["acceptance_rate"] == 1.0
    own = ["--replay.sampler", "mine.py:AlsoUniform", "--name", "drawn"]
    assert main(["run", *own, *words]) == 0
    assert "plugin AlsoUniform" in json.loads(capsys.readouterr().out)["versions"]
    assert main(["run", "--memory.rule", "mine.py:Newest", "--name", "x", *words]) == 2
    assert "M2D3PETS needs a memory that is a M2D3Memory" in capsys.readouterr().err


def test_the_options_of_a_memory_are_given_and_recorded(mine, words, capsys):
    (mine / "memory.py").write_text(
        "from dataclasses import dataclass\n"
        "from metadrift.memory.reservoir import ReservoirMemory\n"
        "class Named(ReservoirMemory):\n"
        "    @dataclass(frozen=True)\n"
        "    class Options:\n"
        "        word: str = 'plain'\n"
        "        number: int = 3\n"
        "    def __init__(self, buffer, rng, options):\n"
        "        super().__init__(buffer, rng)\n"
        "        assert options.word == 'given'\n"
    )
    command = ["run", "--method", "reservoir", "--memory", "memory.py:Named", "--name", "x"]
    assert main([*command, "--options.word", "given", *words]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["options.word"] == "given"
    text = (mine / "runs" / "x" / "config.toml").read_text()
    assert 'word = "given"' in text
    assert "number = 3" in text


def test_a_detector_and_features_of_a_file_are_used_with_their_options(mine, words, capsys):
    parts = ["--detector", "mine.py:Every", "--features=mine.py:Brightness"]
    parts += ["--sampler", "mine.py:AlsoUniform", "--name", "run"]
    own = ["--options.period", "7", "--options.times=2"]
    assert main(["run", *parts, *own, *words]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["detection"]["detected"] + summary["detection"]["false_alarms"] == 3
    recorded = {k: v for k, v in summary["settings"].items() if k.startswith("options.")}
    # The option that nobody gave is recorded with its default.
    assert recorded == {"options.period": 7, "options.times": 2, "options.power": 1.0}
    used = {"plugin Every", "plugin Brightness", "plugin AlsoUniform"}
    assert used <= summary["versions"].keys()
    (mine / "short.toml").write_text(
        'detector = "mine.py:Every"\nfeatures = "mine.py:Brightness"\n'
        'sampler = "mine.py:AlsoUniform"\n[options]\nperiod = 7\ntimes = 2\n'
    )
    assert main(["run", "--config", "short.toml", "--name", "again", *words]) == 0
    assert_same_run(mine / "runs" / "run", mine / "runs" / "again")


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (["--detector", "papr"], "there is no detector 'papr'; did you mean 'paper'?"),
        (["--features", "frosen"], "there are no features 'frosen'; did you mean 'frozen'?"),
        (["--memory", "resevoir"], "there is no memory 'resevoir'; did you mean 'reservoir'?"),
        (["--sampler", "pest"], "there is no sampler 'pest'; did you mean 'pets'?"),
        (["--detector", "mine.py:Cosine"], "is not a subclass of metadrift.detection.Change"),
        (["--features", "mine.py:Cosine"], "is not a subclass of metadrift.detection.Feature"),
        (["--memory", "mine.py:Cosine"], "is not a subclass of metadrift.memory.Memory"),
        (["--sampler", "mine.py:Cosine"], "is not a subclass of metadrift.replay.ReplaySampler"),
        (["--method", "mir", "--sampler", "uniform"], "mir chooses what it replays itself"),
        (["--method", "sequential", "--sampler", "uniform"], "sequential replays nothing"),
        (["--method", "sequential", "--memory", "reservoir"], "sequential keeps nothing"),
        (["--method", "reservoir", "--sampler", "pets"], "reservoir has no latent domains"),
        (["--method", "balanced-oracle", "--memory", "m2d3"], "has a memory of its own"),
        (["--method", "mer", "--detector", "mine.py:Every"], "mer detects no changes"),
    ],
)
def test_a_wrong_part_is_one_sentence(part, sentence, mine, words, capsys):
    assert main(["run", "--name", "x", *part, *words]) in (1, 2)
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert sentence.lower() in said.lower()
    assert not (mine / "runs").exists()


def test_every_method_that_draws_takes_a_sampler(mine, words, capsys):
    (mine / "counting.py").write_text(
        "from metadrift.replay import UniformReplay\n"
        "class Counting(UniformReplay):\n"
        "    def choose(self, *given):\n"
        "        with open('draws', 'a') as file:\n"
        "            file.write('.')\n"
        "        return super().choose(*given)\n"
    )
    for method in ("reservoir", "gss", "agem", "mer", "balanced-oracle"):
        command = ["run", "--method", method, "--sampler", "counting.py:Counting"]
        assert main([*command, "--name", method, "--only", "dark", *words]) == 0
        summary = json.loads(capsys.readouterr().out)
        assert "plugin Counting" in summary["versions"]
        drawn = (mine / "draws").read_text()
        assert len(drawn) >= summary["steps"] - 1  # every step but the first, with an empty memory
        (mine / "draws").unlink()


def test_a_grid_names_parts_in_short(mine, tiny_benchmark):
    grid = parse_grid(
        {"settings": {"detector": "paper"}, "variants": [{"method": "reservoir", "memory": "gss"}]},
        "here",
        "title",
    )
    (config,) = {cell.config.memory.rule for cell in grid.cells()}
    assert config == "gss"
    assert grid.cells()[0].config.detection.mode == "paper"
    with pytest.raises(MetadriftError, match="replay: sampler must be text in quotes, not 3"):
        parse_grid({"variants": [{"method": "mir", "sampler": 3}]}, "here", "title").cells()


@pytest.fixture
def benchmark_with_parts(tiny_benchmark):
    """A benchmark file whose runs begin with a method, a learner, options and a scale of ways."""
    file = tiny_benchmark.with_name("with-parts.toml")
    parts = 'method = "mine.py:ReplayTwice"\nlearner = "ridge"\nsampler = "uniform"\nshots = 2\n'
    file.write_text(
        f"{tiny_benchmark.read_text()}\n[settings]\n{parts}[settings.options]\ntimes = 3\n"
    )
    return str(file)


def test_a_benchmark_file_names_parts_and_every_other_source_of_settings_wins(
    mine, words, benchmark_with_parts, capsys
):
    words[words.index("--benchmark") + 1] = benchmark_with_parts
    assert main(["run", *words]) == 2  # a file alone makes nobody load code
    assert "nothing but the command line makes metadrift load code" in capsys.readouterr().err
    assert main(["run", "--shots", "1", "--plugin", "mine.py:ReplayTwice", *words]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["method"], summary["learner"], summary["shots"]) == ("ReplayTwice", "ridge", 1)
    assert summary["settings"]["options.times"] == 3
    (mine / "own.toml").write_text('method = "reservoir"\nlearner = "protonet"\n')
    assert main(["run", "--config", "own.toml", *words]) == 2
    assert "there is no option 'times'; the parts of this run have none" in capsys.readouterr().err
    settings = {"benchmark": benchmark_with_parts, "scale": 0.2, "queries": 3}
    rows = [{"method": "mine.py:ReplayTwice"}, {"method": "mine.py:ReplayTwice", "queries": 4}]
    rows[1]["name"] = "more"
    grid = parse_grid({"settings": settings, "variants": rows, "seeds": [0]}, "g", "g")
    configs = [cell.config for cell in grid.cells()]
    assert [config.queries for config in configs] == [3, 4]
    assert {config.replay.sampler for config in configs} == {"uniform"}
    assert {config.learner for config in configs} == {"protonet"}  # a grid has its own axes


def test_a_comparison_takes_learner_shots_and_method_from_the_benchmark(
    mine, words, benchmark_with_parts, capsys
):
    words[words.index("--benchmark") + 1] = benchmark_with_parts
    words = ["compare", "--seeds", "0", "--plugin", "mine.py:ReplayTwice", *words]
    assert main([*words, "--methods", "mine.py:ReplayTwice", "--workers", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["variant"], row["learner"], row["shots"]) == ("ReplayTwice", "ridge", 2)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("seed = 1", "seed is set by the run, not by the benchmark"),
        ("shot = 1", "there is no setting 'shot'; did you mean 'shots'?"),
        ('learner = "protnet"', "there is no learner 'protnet'; did you mean 'protonet'?"),
        ("shots = true", "shots must be a whole number, not true"),
    ],
)
def test_wrong_settings_of_a_benchmark_are_one_sentence(line, sentence, tiny_benchmark, capsys):
    file = tiny_benchmark.with_name("wrong.toml")
    file.write_text(f"{tiny_benchmark.read_text()}\n[settings]\n{line}\n")
    for command in ("run", "compare"):
        assert main([command, "--benchmark", str(file)]) != 0
        error = capsys.readouterr().err
        assert f"benchmark {file}: settings" in error
        assert sentence in error
        assert len(error.strip().splitlines()) == 1


def test_options_of_a_comparison_belong_into_a_grid(capsys):
    assert main(["compare", "--options.times", "3"]) == 2
    assert "write them in a --grid file" in capsys.readouterr().err


def test_a_run_is_resumed_when_its_code_is_named_again_and_changed_code_is_said(
    mine, words, capsys
):
    assert main(["run", "--method", "mine.py:ReplayTwice", "--name", "whole", *words]) == 0
    shutil.copytree(mine / "runs" / "whole", mine / "runs" / "cut")
    cut = mine / "runs" / "cut"
    (cut / "summary.json").unlink()
    shutil.rmtree(checkpoints(cut / "checkpoints")[-1])
    registry._allowed.clear()
    capsys.readouterr()
    assert main(["resume", str(cut), "--json"]) == 2
    assert "ReplayTwice is code from outside" in capsys.readouterr().err
    # The file has moved, and got a comment.
    (mine / "elsewhere").mkdir()
    moved = (mine / "mine.py").rename(mine / "elsewhere" / "mine.py")
    moved.write_text(moved.read_text() + "# changed\n")
    assert main(["resume", str(cut), "--plugin", "elsewhere/mine.py:ReplayTwice"]) == 0
    assert "was written with plugin ReplayTwice" in capsys.readouterr().err
    one, two = (
        json.loads((mine / "runs" / name / "summary.json").read_text())["accuracy"]
        for name in ("whole", "cut")
    )
    assert one == two


def test_code_that_changed_since_the_run_is_said_by_whoever_opens_it(mine, words, picture, capsys):
    assert main(["run", "--learner", "mine.py:Cosine", "--name", "run", *words]) == 0
    for kind, colour in (("a", "red"), ("b", "blue")):
        (mine / "few" / kind).mkdir(parents=True)
        (mine / "few" / kind / "1.png").write_bytes(picture(colour, (9, 9)))
    for place, more in (("same", ""), ("other", "# changed\n")):
        (mine / place).mkdir()
        (mine / place / "mine.py").write_text((mine / "mine.py").read_text() + more)
    classify = ["classify", "--run", "runs/run", "--support", "few", "--query", "few", "--plugin"]
    registry._allowed.clear()
    capsys.readouterr()
    assert main([*classify, "same/mine.py:Cosine"]) == 0
    assert "note:" not in capsys.readouterr().err
    registry._allowed.clear()
    assert main([*classify, "other/mine.py:Cosine"]) == 0
    said = capsys.readouterr().err
    assert "note: runs/run/checkpoints/" in said
    assert "was written with plugin Cosine" in said
    with pytest.warns(UserWarning, match="was written with plugin Cosine"):
        ContinualMetaLearner.from_run("runs/run", device="cpu")


def test_a_comparison_runs_code_of_a_file_in_its_processes(mine, words):
    command = [Path(sys.executable).with_name("metadrift"), "compare", "--seeds", "0"]
    methods = ["--methods", "reservoir", "mine.py:ReplayTwice", "--learners", "mine.py:Cosine"]
    done = subprocess.run([*command, *methods, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["variant"] for row in rows] == ["reservoir", "ReplayTwice"]
    assert main(["report", str(mine / "comparisons" / "comparison")]) == 0  # needs no code


HOSTILE = """
import pathlib
pathlib.Path({mark!r}).touch()
class Evil:
    pass
"""


@pytest.mark.parametrize(
    "setting", ["method", "learner", "rule", "sampler", "mode", "features", "detector"]
)
@pytest.mark.parametrize("where", ["file", "module"])
def test_no_folder_makes_metadrift_load_code(
    setting, where, mine, words, capsys, monkeypatch, picture
):
    assert main(["run", "--method", "m2d3-pets", "--name", "run", *words]) == 0
    run = mine / "runs" / "run"
    mark = mine / "loaded"
    (run / "evil.py").write_text(HOSTILE.format(mark=str(mark)))
    monkeypatch.syspath_prepend(run)
    evil = f"{run / 'evil.py'}:Evil" if where == "file" else "evil:Evil"
    lines = (run / "config.toml").read_text().splitlines()
    tables = {"rule": "[memory]", "sampler": "[replay]"}
    tables |= dict.fromkeys(("mode", "features"), "[detection]")
    table = tables.get(setting)
    lines = [line for line in lines if not line.startswith(f"{setting} = ")]
    lines.insert(lines.index(table) + 1 if table else 0, f'{setting} = "{evil}"')
    (run / "config.toml").write_text("\n".join(lines))
    for kind in "ab":
        home = mine / "support" / kind
        home.mkdir(parents=True)
        (home / "1.png").write_bytes(picture("red" if kind == "a" else "blue", (12, 12)))
    support = str(mine / "support")
    classify = ["classify", "--run", str(run), "--support", support, "--query", support]
    assert main(["report", str(run)]) == 0
    assert main(classify) == (2 if setting == "learner" else 0)
    assert main(["run", "--config", str(run / "config.toml"), "--name", "x"]) == 2
    (run / "summary.json").unlink()
    assert main(["resume", str(run)]) == 2
    assert "is code from outside of metadrift and was not loaded" in capsys.readouterr().err
    assert not mark.exists()
    assert "evil" not in sys.modules


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("mine.py:ReplayTwic", "its module has no 'ReplayTwic'; did you mean 'ReplayTwice'"),
        ("mine.py:NoMethod", "is not a subclass of metadrift.methods.Method"),
        ("gone.py:Name", "there is no file"),
        ("no_such_package.module:Name", "there is no module 'no_such_package.module'; install"),
        ("mine.py", "there is no method 'mine.py'; say which class of the file: mine.py:NAME"),
        ("mine.py:NUMBER", "is not a subclass of metadrift.methods.Method"),
        ("mine.py:Half", "mine.py:Half needs a method step, as metadrift.methods.Method"),
        ("mine.py:Greedy", "Greedy is made as Greedy(learner=, optimizer=, memory=, config=, rng="),
        ("mine.py:Loose", "Loose.Options must be a dataclass"),
    ],
)
def test_a_wrong_reference_is_one_sentence(word, sentence, mine, words, capsys):
    assert main(["run", "--method", word, "--name", "x", *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not (mine / "runs").exists()


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("class A\n", "SyntaxError: expected ':', in line 1 of "),
        ("\nimport no_such_thing\n", "No module named 'no_such_thing', in line 2 of "),
        ("def f():\n    return 1 / 0\nf()\n", "division by zero, in line 2 of "),
    ],
)
def test_a_file_that_cannot_be_loaded_is_one_sentence_with_its_line(
    source, sentence, mine, words, capsys
):
    (mine / "broken.py").write_text(source)
    for _ in range(2):
        assert main(["run", "--method", "broken.py:A", *words]) == 2
        said = capsys.readouterr().err
        assert "broken.py:A cannot be loaded: " in said
        assert f"{sentence}{mine / 'broken.py'} (--debug shows all)" in said
        assert len(said.splitlines()) == 1
    assert not (mine / "runs").exists()


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("--learner mine.py:Bare", "Bare needs a method logits(support, labels, query, ways)"),
        ("--learner mine.py:Short", "Short is made as Short(ConvNet, Pictures, str), and it does"),
        ("--backbone mine.py:wants", "the backbone mine.py:wants asks for 'depth'; it can have"),
        ("--backbone mine.py:NUMBER", "mine.py:NUMBER is not a class or function that gives"),
        ("--sampler mine.py:Wants", "Wants is made as Wants(), and it does not take that: missing"),
        ("--method reservoir --memory mine.py:NoAdmit", "NoAdmit needs a method admit, as"),
        ("--plugin mine.py", "--plugin takes file.py:Name or package.module:Name, not 'mine.py'"),
    ],
)
def test_a_part_that_cannot_be_made_is_one_sentence(part, sentence, mine, words, capsys):
    assert main(["run", *part.split(), *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said
    assert not (mine / "runs").exists()


def test_an_error_inside_a_part_is_one_sentence_with_its_line(mine, words, capsys):
    lines = (mine / "mine.py").read_text().splitlines()
    line = 1 + lines.index('        raise ValueError("too long")')
    command = ["run", "--method", "mine.py:Raises", *words]
    assert main(command) == 1
    said = capsys.readouterr().err
    where = f"in line {line} of {mine / 'mine.py'} (--debug shows all)"
    assert f"metadrift run: ValueError: too long, {where}" in said
    with pytest.raises(ValueError, match="too long"):
        main([*command, "--debug", "--name", "other"])
    assert main(["run", "--method", "mine.py:Silent", *words]) == 2
    assert "Silent.step must return a StepRecord, such as outcome.record(), not" in (
        capsys.readouterr().err
    )


def test_a_wrong_value_of_an_option_is_said_by_its_whole_name(mine, words, capsys):
    command = ["run", "--method", "mine.py:ReplayTwice", *words]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--options.times", "many"])
    assert ended.value.code == 2
    assert "Error parsing --options.times" in capsys.readouterr().err


def test_wrong_options_are_refused(mine, words, capsys):
    command = ["run", "--name", "x", *words]
    assert main([*command, "--method", "mine.py:ReplayTwice", "--options.tines", "1"]) == 2
    assert "there is no option 'tines'; did you mean 'times'?" in capsys.readouterr().err
    assert main([*command, "--options.times", "1"]) == 2
    assert "there is no option 'times'; the parts of this run have none" in capsys.readouterr().err
    (mine / "wrong.toml").write_text('[options]\ntimes = "often"\n')
    config = ["run", "--config", "wrong.toml", *words[2:]]
    assert main([*config, "--method", "mine.py:ReplayTwice", *words[:2]]) == 1
    assert "options of ReplayTwice: times must be a whole number" in capsys.readouterr().err


def test_the_help_of_a_plug_in_says_its_options(mine, capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "--options.help lists them" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["run", "--method", "mine.py:ReplayTwice", "--options.help"])
    assert "--options.times  How often a step is learned. (default: 2)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(
            [
                "run",
                "--detector",
                "mine.py:Every",
                "--sampler",
                "mine.py:AlsoUniform",
                "--options.help",
            ]
        )
    said = capsys.readouterr().out
    assert "--options.period" in said
    assert "--options.times" in said


def test_an_installed_package_adds_names(tmp_path, monkeypatch, words, capsys):
    info = tmp_path / "site" / "extra-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[metadrift.methods]\ntwice = extra_mine:ReplayTwice\n")
    shutil.copy(SOURCE, tmp_path / "site" / "extra_mine.py")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    registry._installed.cache_clear()
    try:
        with pytest.raises(SystemExit):
            main(["run", "--help"])
        assert "balanced-oracle, twice, joint" in capsys.readouterr().out
        assert main(["run", "--method", "twice", "--name", "x", *words]) == 0
        assert "plugin twice" in json.loads(capsys.readouterr().out)["versions"]
        run = str(tmp_path / "runs" / "x")
        (tmp_path / "runs" / "x" / "summary.json").unlink()
        assert main(["resume", run, "--json"]) == 0
        # Who only reads the run needs no package.
        shutil.rmtree(tmp_path / "site")
        registry._installed.cache_clear()
        assert main(["report", run]) == 0
        assert main(["watch", run, "--once"]) == 0
        assert metadrift.load(run).config.method == "twice"
        (tmp_path / "runs" / "x" / "summary.json").unlink()
        assert main(["resume", run]) in (1, 2)
        assert "there is no method 'twice'" in capsys.readouterr().err
    finally:
        registry._installed.cache_clear()


class Handed(ReplayingMethod):
    pass


def test_a_live_program_hands_in_every_part(make_tasks, tmp_path, mine):
    registry.allow("mine.py:Every", "mine.py:Brightness", "mine.py:AlsoUniform", "mine.py:Newest")
    names = {"detectors": "Every", "features": "Brightness", "samplers": "AlsoUniform"}
    kinds = {kind: registry.find(kind, f"mine.py:{name}") for kind, name in names.items()}
    newest = registry.find("memories", "mine.py:Newest")

    def parts():
        return {
            "detector": kinds["detectors"](None, kinds["detectors"].Options(period=2)),
            "features": kinds["features"](None, kinds["features"].Options()),
            "sampler": kinds["samplers"](kinds["samplers"].Options()),
        }

    shape = {"geometry": TaskGeometry(3, 2, 2), "image_size": 16, "tasks_per_step": 3, "memory": 4}
    model = ContinualMetaLearner(device="cpu", **shape, **parts())
    for seed in range(5):
        record = model.observe(make_tasks(seed=seed))
    assert record.latent_domain == 2
    registry._allowed.clear()
    path = model.save(tmp_path / "saved")
    with pytest.raises(UsageError, match="was not loaded"):
        ContinualMetaLearner.load(path)
    again = ContinualMetaLearner.load(path, device="cpu", **parts())
    record = again.observe(make_tasks(seed=9))
    assert repr(record) == repr(model.observe(make_tasks(seed=9)))
    named = ContinualMetaLearner(
        "reservoir", detector="paper", memory_rule=newest, sampler="uniform", **shape
    )
    assert type(named.method.memory) is newest
    assert named.config.detection.mode == "paper"
    with pytest.raises(UsageError, match="detector must be a name or a ChangeDetector"):
        ContinualMetaLearner(detector=3, **shape)
    with pytest.raises(UsageError, match=r"is not a subclass of metadrift\.memory\.Memory"):
        ContinualMetaLearner(memory_rule=3, **shape)


def test_a_live_program_hands_in_a_class(make_tasks, tmp_path):
    shape = {"geometry": TaskGeometry(3, 2, 2), "image_size": 16, "memory": 4}
    model = ContinualMetaLearner(Handed, tasks_per_step=3, device="cpu", **shape)
    for seed in range(5):
        model.observe(make_tasks(seed=seed))
    path = model.save(tmp_path / "saved")
    with pytest.raises(UsageError, match="was not loaded"):
        ContinualMetaLearner.load(path)
    again = ContinualMetaLearner.load(path, method=Handed, device="cpu")
    assert isinstance(again.method, Handed)
    record = again.observe(make_tasks(seed=9))
    assert repr(record) == repr(model.observe(make_tasks(seed=9)))


def test_python_allows_a_reference_by_name(mine):
    with pytest.raises(UsageError, match=r"metadrift\.registry\.allow\('mine.py:Cosine'\)"):
        make_learner("mine.py:Cosine", image_size=8, ways=2, generator=0)
    registry.allow("mine.py:Cosine")
    kind = registry.find("learners", "mine.py:Cosine")
    learner = make_learner(kind, image_size=8, ways=2, generator=0, options=kind.Options())
    assert type(learner).__name__ == "Cosine"
    assert metadrift.registry.loaded().keys() == {"plugin Cosine"}


def test_a_name_that_is_unknown_is_refused_with_what_there_is():
    with pytest.raises(UsageError, match="there is no method 'x'; there are sequential, reservoir"):
        RunConfig(method="x")
    net = make_learner("protonet", image_size=8, ways=2, generator=0)
    with pytest.raises(UsageError, match="did you mean 'reservoir'"):
        make_method("resevoir", net, torch.optim.Adam(net.parameters()), seed=0)


def test_an_optimiser_of_a_file_is_used(mine, words, capsys):
    own = ["--optim.name", "mine.py:Halved", "--optim.options", "momentum=0.5", "--name", "x"]
    assert main(["run", "--method", "sequential", *own, *words]) == 0
    assert "plugin Halved" in json.loads(capsys.readouterr().out)["versions"]
    other = ["--optim.name", "mine.py:Cosine", "--name", "y"]
    assert main(["run", "--method", "sequential", *other, *words]) == 2
    assert "is not a subclass of torch.optim.Optimizer" in capsys.readouterr().err


def test_a_users_method_runs_on_two_processes(mine, words):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*torchrun, "--nproc-per-node", "2", "-m", "metadrift", "run", "--name", "two"]
    done = subprocess.run(
        [*command, "--method", "mine.py:ReplayTwice", "--options.times", "3", *words],
        capture_output=True, text=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(Path("runs/two/summary.json").read_text())
    assert (summary["method"], summary["settings"]["options.times"]) == ("ReplayTwice", 3)
    assert "plugin ReplayTwice" in summary["versions"]
    began = read_lines(Path("runs/two/events.jsonl"))[0]
    assert (began["event"], began["processes"]) == ("began", 2)
