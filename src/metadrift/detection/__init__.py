"""Online detection of domain changes (ODCD): features of a batch, a statistic, a rule.

Names that need torch or scipy are loaded on first use. The statistics need only numpy.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from metadrift import registry
from metadrift.detection.config import DetectionConfig
from metadrift.detection.detectors import Algorithm1, Change, ChangeDetector, PaperDetector
from metadrift.detection.fourier import FourierMMD
from metadrift.detection.mmd import TwoWindowMMD, median_bandwidth, two_window_mmd
from metadrift.detection.projection import Projection
from metadrift.detection.returns import LatentDomains, Move
from metadrift.detection.river_style import DriftDetector
from metadrift.detection.twostage import TwoStageDetector

_FEATURES = ("FeatureExtractor", "FrozenFeatures", "NetworkFeatures", "make_features")
_HOMES = dict.fromkeys(_FEATURES, "metadrift.detection.features")
_HOMES |= dict.fromkeys(("Trace", "detect"), "metadrift.detection.trace")
_HOMES["calibrated"] = "metadrift.detection.calibration"

__all__ = [
    "Algorithm1",
    "Change",
    "ChangeDetector",
    "DetectionConfig",
    "DriftDetector",
    "FeatureExtractor",
    "FourierMMD",
    "FrozenFeatures",
    "LatentDomains",
    "Move",
    "NetworkFeatures",
    "PaperDetector",
    "Projection",
    "Trace",
    "TwoStageDetector",
    "TwoWindowMMD",
    "calibrated",
    "detect",
    "make_detector",
    "make_features",
    "median_bandwidth",
    "two_window_mmd",
]


def make_detector(
    config: DetectionConfig, options: Mapping[str, Any] | None = None
) -> ChangeDetector:
    """The detector that `config.mode` names; `options` are those of a plug-in."""
    kind = registry.subclass("detectors", config.mode, ChangeDetector)
    return registry.made(kind, config, options=options)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'metadrift.detection' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
