"""Methods, one file each. Each has a `step` that reads like its paper's algorithm.

Names that need torch are loaded on first use, so that settings can be read quickly.
"""

from __future__ import annotations

import importlib

from metadrift.methods.config import (
    BaselineConfig,
    MemoryConfig,
    OptimConfig,
    ReplayConfig,
    TransformConfig,
)

_HOMES = {
    "Method": "metadrift.methods.base",
    "MethodParts": "metadrift.methods.parts",
    "NonFiniteError": "metadrift.methods.base",
    "ReplayingMethod": "metadrift.methods.replaying",
    "StepRecord": "metadrift.methods.base",
    "make_method": "metadrift.methods.make",
}

__all__ = [
    "BaselineConfig",
    "MemoryConfig",
    "Method",
    "MethodParts",
    "NonFiniteError",
    "OptimConfig",
    "ReplayConfig",
    "ReplayingMethod",
    "StepRecord",
    "TransformConfig",
    "make_method",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'metadrift.methods' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
