"""Mistakes of a first hour, each answered in a sentence that says what would be right."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from metadrift.cli import main
from metadrift.commands.compare import print_result
from metadrift.commands.demo import tell

MISTAKES = """
import numpy as np, torch
import metadrift
from metadrift import ContinualMetaLearner, MetadriftError, TaskBatch, TaskGeometry

geometry = TaskGeometry(ways=3, shots=1, queries=2)
images = np.zeros((2, 9, 1, 12, 12), np.uint8)

class Net(torch.nn.Module):
    def __init__(self, pixels):
        super().__init__()
        self.layer = torch.nn.Linear(3 * pixels**2, 7)

    def forward(self, x):
        return self.layer(x.flatten(1))

def learner(method="sequential", **more):
    return ContinualMetaLearner(method, geometry=geometry, image_size=12, channels=1,
        tasks_per_step=2, **more)

def tried(call):
    try:
        call()
        print("nothing said")
    except MetadriftError as error:
        print(error)

tried(lambda: TaskBatch(images, geometry))
tried(lambda: TaskBatch(torch.from_numpy(images), (3, 1, 2)))
tried(lambda: learner().observe(torch.from_numpy(images)))
tried(lambda: learner().predict(images))
tried(lambda: learner(backbone=Net))
tried(lambda: learner(backbone=Net(28)))
tried(lambda: learner("joint"))
saved = learner(backbone=Net(12)).save("saved")
tried(lambda: ContinualMetaLearner.load(saved))
tried(lambda: ContinualMetaLearner.load(saved, backbone=Net(12)))
print(*dir(metadrift))
"""


def test_mistakes_in_python_are_answered_in_sentences(tmp_path):
    code = textwrap.dedent(MISTAKES)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    array, numbers, tensor, predict, a_class, size, joint, load, again, names = said
    assert array == (
        "task images must be a torch tensor, not a ndarray; torch.from_numpy(array) makes one "
        "of an array"
    )
    assert numbers.startswith("the geometry of tasks must be a TaskGeometry, such as TaskGeometry(")
    assert tensor.startswith("tasks must be a TaskBatch, not a Tensor; TaskBatch(images, geometry)")
    assert predict.startswith("tasks must be a TaskBatch, not a ndarray")
    assert a_class == "backbone must be a torch module, such as MyNet(), not the class Net"
    assert size.startswith("the backbone cannot take images [2, 3, 12, 12]: mat1 and mat2 shapes")
    assert joint.startswith("joint training has all domains at hand, which a live stream has not")
    assert "load(path, backbone=...) takes a custom one again" in load
    assert "Missing key(s) in state_dict" in load
    assert again == "nothing said"
    assert {"ContinualMetaLearner", "TaskBatch", "TaskGeometry", "load"} <= set(names.split())


def test_a_hole_in_a_csv_is_named_by_its_line_and_column(tmp_path, capsys):
    vectors = np.random.default_rng(0).normal(size=(60, 2))
    vectors[50, 1] = np.nan
    np.savetxt(tmp_path / "holes.csv", vectors, delimiter=",")
    assert main(["detect", str(tmp_path / "holes.csv")]) == 1
    said = capsys.readouterr().err
    assert "holes.csv, line 51, column 2: the value is missing" in said
    assert "loss" not in said


def test_a_short_stream_is_told_what_is_learned_and_what_is_needed(tmp_path, capsys):
    np.savetxt(tmp_path / "short.csv", np.zeros((30, 2)), delimiter=",")
    assert main(["detect", str(tmp_path / "short.csv")]) == 0
    said = capsys.readouterr().out
    assert "the first 300 steps are learned as usual, where only a large change is found" in said
    assert "400 are needed to compare others with them" in said
    page = Path(__file__).parents[2] / "docs" / "detect.md"
    assert "for 6 windows" in page.read_text(encoding="utf-8")


def test_the_report_of_nothing_says_that_there_is_no_folder(tmp_path, capsys):
    assert main(["report", str(tmp_path / "none")]) == 1
    said = capsys.readouterr().err
    assert (
        said
        == f"metadrift report: there is no folder {tmp_path / 'none'} of a run or a comparison\n"
    )


@pytest.mark.parametrize(("typed", "meant"), [("dat", "data"), ("papre", "paper"), ("rnu", "run")])
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(typed, meant, capsys):
    assert main([typed, "list"]) == 2
    assert capsys.readouterr().err.endswith(f"did you mean {meant!r}?\n")


def test_a_wrong_key_of_a_segment_is_named_with_the_right_one(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(
        'memory = 9\n[[segments]]\ndomain = "glyphs"\nstep = 100\n', encoding="utf-8"
    )
    assert main(["run", "--benchmark", str(tmp_path / "mine.toml"), "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "segments 1: there is no setting 'step'; did you mean 'steps'?" in said


def test_a_comparison_fits_into_a_terminal_of_80_columns(capsys):
    row = {"learner": "protonet", "shots": 5, "mark": "", "published": None}
    row |= {"accuracy": {"mean": 0.612, "ci95": 0.021, "seeds": 3}, "fresh": "none"}
    row |= {"forgetting": 0.1, "backward_transfer": -0.01, "min_share": 0.2, "precision": "float32"}
    paired = {"to": "reservoir", "mean": 0.021, "t95": [0.01, 0.032], "seeds": 3}
    rows = [{**row, "variant": "sequential", "difference": paired}, {**row, "variant": "reservoir"}]
    print_result({"title": "mine", "rows": rows}, Path("comparisons/mine"))
    table = [line for line in capsys.readouterr().out.splitlines() if line[:1] in "┏┃┡│└ "]
    assert table[0].strip() == "mine, protonet, 5-shot"
    assert "+2.1 [+1.0, +3.2]" in table[5]
    assert max(map(len, table)) <= 80


def test_the_demo_tells_accuracy_memory_changes_and_the_paired_difference(capsys):
    names = ("silhouettes", "creatures", "textures", "badges")
    row = {"per_domain": {name: {"mean": 0.5} for name in names}, "shares": None}
    held = {**row, "shares": dict.fromkeys(names, 0.25)}
    found = {"true_changes": 9, "detected": 8, "false_alarms": 1}
    paired = {"to": "reservoir", "mean": -0.004, "t95": [-0.02, 0.012], "seeds": 3}
    ours = {**held, "variant": "m2d3-pets", "detection": found, "difference": paired}
    rows = [{**row, "variant": "sequential"}, {**held, "variant": "reservoir"}, ours]
    tell({"rows": rows, "seeds": [0, 1, 2]}, 0.05)
    said = capsys.readouterr().out
    assert "│ silhouettes │   120 │ 50.0       │ 50.0      │ 50.0      │" in said
    assert "share of the memory of 8 batches, %" in said
    assert "m2d3-pets found 8 of 9 changes, with 1 false alarms" in said
    # Whatever it is, and also if it is not in favour of the method.
    assert "m2d3-pets minus reservoir, in points: -0.4 [-2.0, +1.2], paired over 3 seeds" in said
