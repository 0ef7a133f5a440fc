from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Pictures
from metadrift.methods.config import ReplayConfig, TransformConfig
from metadrift.runs.config import LearnerConfig, RunConfig, from_toml, load_config, to_toml
from metadrift.runs.resolve import resolved
from metadrift.streams import load_benchmark


def test_the_defaults_are_those_that_the_numbers_were_measured_with():
    groups = ("learn", "optim", "memory", "replay", "transform", "detection", "baseline")
    found = {name: value for name, value in asdict(RunConfig()).items() if name not in groups}
    assert found == {
        "benchmark": "builtin", "scale": 1.0, "ways": 5, "queries": 10, "backbone": None,
        "ways_in_training": None, "tasks_per_step": None, "only": None, "lr": 0.001, "size": 28,
        "fresh": "all", "rehearse": 0.0, "labels": "detected",
        "test_tasks": 750, "test_precision": 0.0,
        "stage_tasks": 100, "split": "test", "checkpoint_every": 500, "keep": 2, "log_every": 10,
        "variance_every": 0, "csv": False, "tensorboard": False, "on_nan": "stop",
        "device": "auto", "precision": "float32", "threads": None, "data": None,
        "method": "m2d3-pets", "learner": "protonet", "shots": 1, "seed": 0, "options": {},
    }  # fmt: skip
    assert asdict(RunConfig().learn) == {
        "filters": None, "normalisation": "batch", "inner_steps": 5, "inner_lr": None,
        "first_order": False, "average": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        *((name, [1], [0]) for name in ("queries", "test_tasks", "keep", "log_every", "shots")),
        *((name, [1], [0]) for name in ("checkpoint_every", "threads", "tasks_per_step")),
        *((name, [0], [-1]) for name in ("stage_tasks", "variance_every", "test_precision")),
        ("rehearse", [0, 0.1, 2], [-0.1]),
        ("ways", [2], [1]),
        ("ways_in_training", [5, 10], [0, 4, 7]),
        ("scale", [0.001, 1], [0, 1.01]),
        ("lr", [1e-9, 1e30], [0, 1.1e30]),
        ("seed", [0], [-1]),
    ],
)
def test_a_setting_has_the_limits_that_its_error_says(name, inside, outside):
    for value in inside:
        assert getattr(RunConfig(**{name: value}), name) == value
    for value in outside:
        with pytest.raises(UsageError, match=f"--{name.replace('_', '-')}"):
            RunConfig(**{name: value})


def test_a_moving_average_needs_a_decay_below_one():
    assert LearnerConfig(average=0).average == 0
    for average in (-0.1, 1):
        with pytest.raises(UsageError, match="below 1"):
            LearnerConfig(average=average)


@settings(deadline=None)
@pytest.mark.slow
@given(
    st.builds(
        RunConfig,
        method=st.sampled_from(["sequential", "joint", "m2d3-pets"]),
        shots=st.integers(1, 9),
        lr=st.floats(1e-6, 1.0),
        scale=st.floats(0.001, 1.0),
        benchmark=st.text(min_size=1),
        data=st.none() | st.just(Path("some where/else")),
        replay=st.builds(ReplayConfig, weighted=st.booleans(), batches=st.integers(1, 4)),
        fresh=st.sampled_from(["all", "replay", "off"]),
        transform=st.builds(TransformConfig, shift=st.floats(0, 0.4), turn=st.floats(0, 1)),
    )
)
def test_a_configuration_survives_toml(config):
    assert from_toml(to_toml(config)) == config


def test_what_is_left_out_keeps_its_default():
    assert from_toml("shots = 5\n[memory]\nbeta = 0\n") == replace(
        RunConfig(), shots=5, memory=replace(RunConfig().memory, beta=0.0)
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shots = ", "cannot be read as TOML"),
        ("metod = 'mir'", "there is no setting 'metod'; did you mean 'method'"),
        ("[memory]\ncolour = 1", "memory: there is no setting 'colour'"),
        ("shots = 'many'", 'shots must be a whole number, not "many"'),
        ("shots = true", "shots must be a whole number, not true"),
        ("method = 'magic'", "there is no method 'magic'; there are sequential"),
        ("memory = 3", "memory: rule must be text in quotes"),
        ("shots = 0", "--shots must be at least 1"),
        ("scale = 2.0", "--scale must be above 0"),
        ("lr = nan", "lr must be a finite number, not NaN"),
    ],
)
def test_a_wrong_configuration_gets_one_sentence(text, says):
    with pytest.raises(MetadriftError, match=says):
        from_toml(text)


@pytest.mark.parametrize(
    ("given", "backbone", "filters"), [(None, "conv4", 64), ("resnet12", "resnet12", 64)]
)
def test_a_resolved_configuration_names_the_backbone_and_its_width(given, backbone, filters):
    config, benchmark = RunConfig(backbone=given), load_benchmark("builtin")
    found = resolved(config, benchmark, example=Pictures(28, 3))
    assert (found.backbone, found.learn.filters) == (backbone, filters)


def test_paths_in_a_file_count_from_its_place(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("benchmark = 'mine.toml'\ndata = 'packs'")
    config = load_config(file)
    assert (config.benchmark, config.data) == (str(tmp_path / "mine.toml"), tmp_path / "packs")
    file.write_text("benchmark = 'builtin'\ndata = '/packs'")
    config = load_config(file)
    assert (config.benchmark, config.data) == ("builtin", Path("/packs"))


@settings(deadline=None)
@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_is_a_configuration_or_a_clear_error(text):
    try:
        config = from_toml(text)
    except MetadriftError:
        return
    assert from_toml(to_toml(config)) == config
