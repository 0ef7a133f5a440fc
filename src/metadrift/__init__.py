"""Few-shot meta-learning on a stream of tasks whose domain drifts.

The names below are loaded on first use, so that `import metadrift` costs milliseconds.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_HOMES = {
    "MetadriftError": "metadrift.errors",
    "TaskBatch": "metadrift.tasks",
    "TaskGeometry": "metadrift.tasks",
    "Pack": "metadrift.domains.pack",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'metadrift' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
