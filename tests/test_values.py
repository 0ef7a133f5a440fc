"""Values do not change: every dataclass is frozen, but those that gather something."""

import dataclasses
import importlib
import inspect
import pkgutil

import metadrift

CHANGE = {"Progress", "_Running", "RunState"}


def every_dataclass():
    for module in pkgutil.walk_packages(metadrift.__path__, "metadrift."):
        if not module.name.endswith("__main__"):
            for _, kind in inspect.getmembers(
                importlib.import_module(module.name), inspect.isclass
            ):
                if kind.__module__ == module.name and dataclasses.is_dataclass(kind):
                    yield kind


def test_values_are_frozen():
    changing = {kind.__name__ for kind in every_dataclass() if not kind.__dataclass_params__.frozen}
    assert changing == CHANGE
