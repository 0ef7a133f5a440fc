"""The settings and how they shrink with the stream."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadrift.detection import DetectionConfig, PaperDetector, TwoStageDetector, make_detector
from metadrift.errors import UsageError


def test_the_defaults_are_those_that_the_numbers_were_measured_with() -> None:
    assert asdict(DetectionConfig()) == {
        "mode": "default", "features": "auto", "context": False, "returns": "auto", "window": 0,
        "delta": 0.0, "rho": 1e-3, "burn_in": 300, "permutations": 200, "level": 0.005,
        "sqrt": False, "refractory": 0, "fourier_features": 512, "feature_dim": 64, "lags": 5,
        "alpha": 0.5, "seed": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "resolved"),
    [
        ({}, {"window": 50, "delta": 6.0, "burn_in": 300, "features": "frozen", "returns": "on"}),
        ({"features": "network"}, {"features": "network", "returns": "off"}),
        ({"window": 120}, {"window": 120, "burn_in": 360}),
        (
            {"mode": "paper"},
            {"window": 100, "delta": 1.64, "burn_in": 300, "features": "paper_z", "returns": "off"},
        ),
        ({"mode": "paper", "features": "frozen"}, {"features": "frozen", "returns": "off"}),
        ({"delta": 3.0, "returns": "off"}, {"delta": 3.0, "returns": "off"}),
    ],
)
def test_what_is_left_open_takes_the_value_of_the_mode(settings, resolved) -> None:
    found = asdict(DetectionConfig(**settings).resolved())
    assert {name: found[name] for name in resolved} == resolved


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("window", [0, 3, 10**9], [2, 10**9 + 1]),
        ("burn_in", [10**9], [10**9 + 1]),
        ("delta", [0, 0.1], [-0.1]),
        ("rho", [1e-6, 1], [0, 1.01]),
        ("level", [0.005], [0, 1.0, 0.0049]),
        ("permutations", [199], [198]),
    ],
)
def test_a_setting_has_the_limits_that_its_error_says(name, inside, outside) -> None:
    for value in inside:
        assert getattr(DetectionConfig(**{name: value}), name) == value
    for value in outside:
        with pytest.raises(UsageError):
            DetectionConfig(**{name: value})


def test_the_stated_scales_give_the_stated_settings() -> None:
    full, small = DetectionConfig().scaled(1.0), DetectionConfig().scaled(0.05)
    assert (full.window, full.burn_in, full.rho) == (50, 300, 1e-3)
    assert (small.window, small.burn_in) == (20, 60)
    assert small.rho == pytest.approx(1 / 300, rel=0.01)
    paper = DetectionConfig(mode="paper").scaled(1.0)
    assert (paper.window, paper.delta, paper.refractory, paper.features) == (
        100,
        1.64,
        0,
        "paper_z",
    )


@pytest.mark.slow
@given(st.floats(1e-6, 10), st.floats(1e-6, 10))
def test_windows_shrink_steadily_down_to_their_floors(a: float, b: float) -> None:
    less, more = (DetectionConfig().scaled(scale) for scale in sorted((a, b)))
    for config in (less, more):
        assert 15 <= config.window <= 50
        assert config.burn_in >= 3 * config.window
        assert 1e-3 <= config.rho <= 0.02
    assert less.window <= more.window
    assert less.burn_in <= more.burn_in


def test_a_small_window_of_ones_own_is_not_made_larger() -> None:
    assert DetectionConfig(window=8).scaled(0.1).window == 8


def test_make_detector_follows_the_mode() -> None:
    assert isinstance(make_detector(DetectionConfig()), TwoStageDetector)
    fourier = make_detector(DetectionConfig(mode="fourier"))
    assert isinstance(fourier, TwoStageDetector)
    assert fourier.config.mode == "fourier"
    assert isinstance(make_detector(DetectionConfig(mode="paper")), PaperDetector)


def test_a_stay_of_three_windows_is_seen_and_a_shorter_one_told_with_what_fits() -> None:
    config = DetectionConfig(window=20)
    assert config.blind_to([60, 400]) == ""
    assert "--detection.window 15 " in config.blind_to([59, 400])
    assert "--detection.window 10 " in config.blind_to([400, 30])


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UsageError, match=r"100 permutations cannot reach the level 0\.005"):
        DetectionConfig(permutations=100)
    with pytest.raises(UsageError, match="settings of mode paper"):
        DetectionConfig(refractory=60)
    with pytest.raises(UsageError, match="at least 3 batches"):
        DetectionConfig(window=2)
    with pytest.raises(UsageError, match="scale"):
        DetectionConfig().scaled(0)


def test_the_detectors_load_without_torch_or_scipy() -> None:
    code = "import sys, metadrift.detection; print({'torch', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
