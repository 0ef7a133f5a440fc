"""Values do not change, and one setting has one default wherever it stands."""

import dataclasses
import importlib
import inspect
import pkgutil

import pytest

import metadrift
from metadrift.detection import DetectionConfig, detect
from metadrift.detection.features import FrozenFeatures, MeanFeatures, NetworkFeatures
from metadrift.learners.anil import ANIL
from metadrift.learners.maml import MAML
from metadrift.memory import GSSMemory, M2D3Memory
from metadrift.methods import BaselineConfig, MemoryConfig, ReplayConfig
from metadrift.replay import PETS
from metadrift.replay.learned import LearnedReplay
from metadrift.runs.config import LearnerConfig

INNER = ("inner_steps", "inner_lr", "first_order")
CHANGE = {"Progress", "_Running", "RunState"}


def every_module():
    for module in pkgutil.walk_packages(metadrift.__path__, "metadrift."):
        if not module.name.endswith("__main__"):
            yield importlib.import_module(module.name)


def every_dataclass():
    for module in every_module():
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == module.__name__ and dataclasses.is_dataclass(kind):
                yield kind


def defaults(made):
    parameters = inspect.signature(made).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def test_values_are_frozen():
    changing = {kind.__name__ for kind in every_dataclass() if not kind.__dataclass_params__.frozen}
    assert changing == CHANGE


@pytest.mark.parametrize(
    ("part", "settings", "names"),
    [
        (M2D3Memory, MemoryConfig(), {"mode": "mode", "beta": "beta", "kappa": "kappa"}),
        (GSSMemory, BaselineConfig(), {"gate": "gss_gate", "compared": "gss_compare"}),
        (PETS, ReplayConfig(), {"weighted": "weighted", "every": "refresh_every"}),
        (PETS, ReplayConfig(), {"batches": "refresh_batches"}),
        (LearnedReplay, ReplayConfig(), {"every": "refresh_every", "batches": "refresh_batches"}),
        (detect, DetectionConfig(), {"seed": "seed"}),
        *((kind, LearnerConfig(), {name: name for name in INNER}) for kind in (ANIL, MAML)),
        (FrozenFeatures, DetectionConfig(), {"dim": "feature_dim", "seed": "seed"}),
        (MeanFeatures, DetectionConfig(), {"dim": "feature_dim", "seed": "seed"}),
        (NetworkFeatures, DetectionConfig(), {"dim": "feature_dim", "seed": "seed"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_part_made_by_hand_has_the_defaults_of_the_settings(part, settings, names):
    found = defaults(part)
    assert {name: found[name] for name in names} == {
        name: getattr(settings, field) for name, field in names.items()
    }


def test_progress_is_shown_unless_somebody_asks_for_quiet():
    quiet = [
        (function.__qualname__, defaults(function)["quiet"])
        for module in every_module()
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and "quiet" in defaults(function)
    ]
    assert len(quiet) >= 4
    assert not any(value for _, value in quiet)
