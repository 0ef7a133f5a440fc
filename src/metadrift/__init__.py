"""Few-shot meta-learning on a stream of tasks whose domain drifts.

The names below are loaded on first use, so that `import metadrift` costs milliseconds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for editors and type checkers; at run time see below
    from metadrift.data.any_order import pack_from_dataset as pack_from_dataset
    from metadrift.data.pack import Pack as Pack
    from metadrift.errors import MetadriftError as MetadriftError
    from metadrift.examples import Arrays as Arrays
    from metadrift.examples import Pictures as Pictures
    from metadrift.live.learner import ContinualMetaLearner as ContinualMetaLearner
    from metadrift.live.model import load as load
    from metadrift.tasks import TaskBatch as TaskBatch
    from metadrift.tasks import TaskGeometry as TaskGeometry

__version__ = "0.2.0"

_HOMES = {
    "MetadriftError": "metadrift.errors",
    "TaskBatch": "metadrift.tasks",
    "TaskGeometry": "metadrift.tasks",
    "Arrays": "metadrift.examples",
    "Pictures": "metadrift.examples",
    "Pack": "metadrift.data.pack",
    "pack_from_dataset": "metadrift.data.any_order",
    "ContinualMetaLearner": "metadrift.live.learner",
    "load": "metadrift.live.model",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'metadrift' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
