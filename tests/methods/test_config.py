"""The settings of methods: the defaults that every published number rests on, and the limits."""

from dataclasses import asdict

import pytest

from metadrift.errors import UsageError
from metadrift.methods.config import (
    BaselineConfig,
    MemoryConfig,
    OptimConfig,
    ReplayConfig,
    TransformConfig,
)


def test_the_defaults_are_those_that_the_numbers_were_measured_with():
    assert asdict(MemoryConfig()) == {
        "capacity": None, "rule": None, "mode": "default", "beta": 0.5, "kappa": 0.5,
        "per_process": False, "mapped": False,
    }  # fmt: skip
    assert asdict(ReplayConfig()) == {
        "batches": 1, "sampler": None, "weighted": True, "refresh_every": 25,
        "refresh_batches": 2, "balance": False, "dark": 0.0,
    }  # fmt: skip
    assert asdict(TransformConfig()) == {
        "shift": 0.107, "turn": 0.75, "resplit": 0.0, "span": 0.0, "mix": 0.0, "drop": 0.0,
    }  # fmt: skip
    assert asdict(OptimConfig()) == {
        "name": "Adam", "options": (), "weight_decay": 0.0, "clip": 0.0, "schedule": "constant",
        "warmup": 0, "steps": None,
    }  # fmt: skip
    assert asdict(BaselineConfig()) == {
        "mir_candidates": 16, "gss_compare": 10, "gss_gate": "relative",
        "agem_project": "update", "mer_alpha": 0.1, "mer_beta": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "inside", "outside"),
    [
        (MemoryConfig, "capacity", [1], [0]),
        (TransformConfig, "shift", [0, 0.49], [-0.01, 0.5]),
        (TransformConfig, "turn", [0, 1], [-0.01, 1.01]),
        (TransformConfig, "resplit", [0, 1], [-0.01, 1.01]),
        (TransformConfig, "span", [0, 10], [-0.01, 10.1]),
        (TransformConfig, "mix", [0, 1], [-0.01, 1.01]),
        (TransformConfig, "drop", [0, 0.95], [-0.01, 0.96]),
        (OptimConfig, "weight_decay", [0], [-0.1]),
        (OptimConfig, "clip", [0], [-0.1]),
        (OptimConfig, "warmup", [0], [-1]),
    ],
)
def test_a_setting_has_the_limits_that_its_error_says(kind, name, inside, outside):
    for value in inside:
        assert getattr(kind(**{name: value}), name) == value
    for value in outside:
        with pytest.raises(UsageError, match=name.replace("_", "-")):
            kind(**{name: value})


def test_the_length_of_a_schedule_is_for_a_falling_rate():
    assert OptimConfig(schedule="cosine", steps=1).steps == 1
    with pytest.raises(UsageError, match="at least 1"):
        OptimConfig(schedule="cosine", steps=0)
    with pytest.raises(UsageError, match="falling rate"):
        OptimConfig(steps=10)
