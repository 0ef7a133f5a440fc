import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from metadrift.commands.paper_list import list_experiments
from metadrift.errors import MetadriftError, UsageError
from metadrift.experiments.figures import show_figures, variance_curve
from metadrift.experiments.grid import Grid
from metadrift.experiments.paper import (
    choose_data,
    experiment_names,
    fitted,
    load_experiment,
)
from metadrift.runs.config import RunSettings
from metadrift.streams.benchmark import load_benchmark

SHARED = Path(os.environ.get("METADRIFT_SHARED", Path(__file__).parents[3] / "shared"))
TEX = SHARED / "paper" / "mlsid.tex"
METADRIFT = Path(sys.executable).with_name("metadrift")
OURS = {
    "Sequential": "sequential",
    "RS": "reservoir",
    "GSS": "gss",
    "AGEM": "agem",
    "MIR": "mir",
    "MER": "mer",
    "Ours": "m2d3-pets",
    "Ours (without PETS)": "m2d3-pets without PETS",
    "Ours (with PETS)": "m2d3-pets",
    "Joint-training": "joint",
    "Independent-training": "independent",
}


@pytest.mark.parametrize("name", experiment_names())
def test_every_experiment_gives_valid_runs_in_the_paper_s_setting(name):
    grid = load_experiment(name)
    for cell in grid.cells():
        config, benchmark = cell.config, load_benchmark(cell.config.benchmark)
        assert config.benchmark.startswith("paper")
        assert (config.ways, config.test_tasks, config.scale) == (5, 750, 1.0)
        assert (benchmark.tasks_per_step, benchmark.memory) == (2, 300)
        assert config.replay.batches == 1
    assert list(grid.seeds) == [0, 1, 2]
    for row in grid.published:
        assert row.learner in grid.learners
        assert row.shots in grid.shots


@pytest.mark.parametrize(
    ("experiment", "variant", "shots", "mean", "half_width"),
    [
        ("pnet", "gss", 1, 36.15, 1.59),
        ("pnet", "m2d3-pets", 5, 60.37, 0.32),
        ("anil", "mer", 5, 49.05, 0.96),
        ("memory-pnet", "reservoir n=500", 1, 35.67, 0.82),
        ("memory-anil", "m2d3-pets n=500", 5, 59.23, 0.49),
        ("order1", "m2d3-pets n=100", 1, 42.35, 0.91),
        ("order2", "reservoir n=500", 5, 59.36, 0.85),
        ("ratios", "agem", 5, 54.91, 0.73),
        ("revisit", "joint", 5, 68.56, 0.57),
        ("ablation", "m2d3-pets without PETS", 1, 38.85, 0.79),
    ],
)
def test_published_numbers_are_those_of_the_paper(experiment, variant, shots, mean, half_width):
    rows = load_experiment(experiment).published
    (row,) = [row for row in rows if (row.variant, row.shots) == (variant, shots)]
    assert (row.mean, row.half_width) == (mean, half_width)


@pytest.mark.skipif(not TEX.is_file(), reason="the paper's source is not here")
@pytest.mark.parametrize("name", experiment_names())
def test_every_published_number_stands_in_the_table_that_is_named(name):
    grid = load_experiment(name)
    text = TEX.read_text()
    (label,) = re.findall(r"\((\w+:[\w-]+)\)", grid.source)[:1]
    end = text.index(f"\\label{{{label}}}")
    if label.startswith("fig:"):
        assert not grid.published
        return
    printed = set()
    for line in text[text.rindex("\\begin{table}", 0, end) : end].splitlines():
        cells = [cell.strip(" $\\") for cell in line.replace("\\mathbf{", "").split("&&")]
        if len(cells) != 3 or "\\pm" not in line:
            continue
        who = re.sub(r"^(PNet|ANIL)-", "", cells[0])
        size = re.search(r" \(\$n= (\d+)\$\)?", who + "$)")
        variant = OURS[who.split(" ($n")[0]] + (f" n={size[1]}" if size else "")
        for shots, cell in zip((1, 5), cells[1:], strict=True):
            mean, half_width = (float(part.strip(" $}")) for part in cell.split("\\pm"))
            printed.add((variant, shots, mean, half_width))
    ours = {(row.variant, row.shots, row.mean, row.half_width) for row in grid.published}
    assert ours == printed
    assert len(ours) == len(grid.published)


def test_memories_shrink_with_the_scale_and_rows_that_become_equal_are_named():
    grid = load_experiment("order1")
    small = fitted(grid, RunSettings(benchmark="builtin-order1", scale=0.05), "data: none")
    sizes = {cell.variant: cell.config.memory.capacity for cell in small.cells()}
    assert [sizes[f"reservoir n={n}"] for n in (100, 200, 300, 500)] == [12, 12, 15, 25]
    assert any("memories of 100 and 200 batches are all 12" in note for note in small.notes)
    whole = fitted(grid, RunSettings(benchmark="paper-order1"), "data: none")
    assert {cell.config.memory.capacity for cell in whole.cells()} == {100, 200, 300, 500}
    assert not any("repeat" in note for note in whole.notes)
    assert whole.reference_of("m2d3-pets n=200") == "reservoir n=200"
    assert whole.reference_of("reservoir n=200") is None


def test_variance_is_measured_as_often_in_a_small_run_as_in_the_paper_s():
    grid = load_experiment("variance")
    small = fitted(grid, RunSettings(benchmark="builtin", scale=0.05), "data: none")
    assert {cell.config.variance_every for cell in small.cells()} == {50}


def test_missing_data_is_replaced_by_the_built_in_domains_with_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("METADRIFT_DATA", str(tmp_path))
    (tmp_path / "cub").mkdir()
    run = RunSettings(benchmark="paper-revisit")
    benchmark, said = choose_data(run)
    assert benchmark == "builtin-revisit"
    assert "sketches for quickdraw" in said
    assert f"as {tmp_path} has no pack quickdraw, miniimagenet, omniglot, aircraft" in said
    with pytest.raises(MetadriftError, match=r"no pack quickdraw.* --stand-ins"):
        choose_data(replace(run, data=tmp_path))
    assert choose_data(replace(run, data=tmp_path), stand_ins=True)[0] == "builtin-revisit"


def test_real_data_is_used_where_all_of_it_is_there(tmp_path):
    import numpy as np

    from metadrift.data.pack import write_pack

    rows = [("c", "train", np.zeros((2, 16, 16, 1), np.uint8))]
    for name in load_benchmark("paper").domains:
        write_pack(tmp_path / name, name, rows, source="", licence="")
    run = RunSettings(benchmark="paper", data=tmp_path)
    assert choose_data(run) == ("paper", f"data: the packs in {tmp_path} at 16 px")
    benchmark, said = choose_data(run, stand_ins=True)
    assert (benchmark, said.endswith("as asked for")) == ("builtin", True)


def test_the_list_counts_runs_and_steps_and_gives_hours_only_for_a_speed(capsys):
    assert list_experiments(json=True) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    # 13 rows, 2 shots, 3 seeds, of 41,000 steps each
    assert (rows["pnet"]["runs"], rows["pnet"]["steps"]) == (78, 3_198_000)
    assert (rows["order1"]["runs"], rows["order1"]["steps"]) == (48, 2_640_000)
    assert "hours" not in rows["pnet"]
    list_experiments(scale=0.05, steps_per_s=10, json=True)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["pnet"]["hours"] == pytest.approx(159_900 / 36_000)
    list_experiments()
    assert "hours need a speed measured" in capsys.readouterr().out
    with pytest.raises(UsageError, match="--steps-per-s"):
        list_experiments(steps_per_s=0)


def test_a_part_of_an_experiment_keeps_what_was_published_for_it():
    grid = load_experiment("pnet").selected(variants=["gss", "joint"], shots=[5])
    assert [(row.variant, row.mean) for row in grid.published] == [("gss", 55.16), ("joint", 68.56)]
    assert grid.reference is None
    with pytest.raises(UsageError, match="no variant 'nonsense'"):
        grid.selected(variants=["nonsense"])


def test_the_variance_curve_is_the_mean_over_seeds(tmp_path, capsys):
    grid = Grid("t", {"ours": {"method": "m2d3-pets"}}, seeds=(0, 1))
    for cell, pets in zip(grid.cells(), (1.0, 3.0), strict=True):
        (tmp_path / cell.name).mkdir()
        line = {"step": 10, "event": "variance", "uniform": 4.0, "pets": pets, "least": 1.8}
        (tmp_path / cell.name / "events.jsonl").write_text(json.dumps(line) + "\n")
    show_figures(grid, tmp_path)
    assert "0.50" in capsys.readouterr().out
    assert '"ours","10","4","2","0.50","0.45"' in (tmp_path / "variance.csv").read_text()


def test_runs_that_did_not_measure_the_least_have_a_curve_without_it(tmp_path):
    grid = Grid("two", {"ours": {"method": "m2d3-pets"}}, seeds=(0,))
    (tmp_path / grid.cells()[0].name).mkdir()
    line = {"step": 10, "event": "variance", "uniform": 4.0, "pets": 2.0}
    (tmp_path / grid.cells()[0].name / "events.jsonl").write_text(json.dumps(line) + "\n")
    (row,) = variance_curve(grid, tmp_path)
    assert row[-2:] == ["0.50", ""]


@pytest.mark.slow
def test_an_unknown_experiment_is_answered_with_the_known_ones():
    done = subprocess.run([METADRIFT, "paper", "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "ablation, anil, memory-anil" in done.stderr


@pytest.mark.slow
def test_a_tiny_experiment_shows_the_paper_s_numbers_beside_ours(tmp_path):
    command = [METADRIFT, "paper", "ablation", "--variants", "reservoir", "--scale", "0.001"]
    command += ["--seeds", "0", "--shots", "1", "--workers", "2", "--out", tmp_path / "out"]
    command += ["--queries", "2", "--test-tasks", "4", "--stage-tasks", "0", "--learn.filters", "4"]
    command += ["--size", "12"]  # small images are quickly made
    environment = os.environ | {"METADRIFT_DATA": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "stand in (sketches for quickdraw" in done.stderr
    assert "34.68 ± 1.96" in done.stdout
    assert "the paper's %: Table 9 (tab:gradientvariance)" in done.stdout
    assert "scale 0.001: sketches 5, textures 2, glyphs 6" in done.stdout
    folder = tmp_path / "out" / "paper-ablation-builtin-0.001"
    (row,) = json.loads((folder / "comparison.json").read_text())["rows"]
    assert row["published"] == {"mean": 34.68, "half_width": 1.96}
    assert 0 <= row["accuracy"]["mean"] <= 1
    assert "| 34.68 ± 1.96 |" in (folder / "table.md").read_text()
