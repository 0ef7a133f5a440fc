"""What every detector must do, whatever its rule."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.detection import Change, DetectionConfig, make_detector
from metadrift.errors import MetadriftError

CONFIGS = [
    DetectionConfig(window=12, burn_in=40),
    DetectionConfig(mode="fourier", window=12, burn_in=40, fourier_features=64),
    DetectionConfig(mode="paper", window=12, sqrt=True, refractory=9),
]
each_mode = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.mode)
SEGMENTS = ((90, 0.0), (90, 1.5), (50, 0.0), (120, 3.0))


def same(a: list[Change], b: list[Change]) -> bool:
    """Equal to the bit; nan equals nan."""
    return repr(a) == repr(b)


@each_mode
def test_one_at_a_time_gives_the_same_answers_as_all_at_once(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    z = stream(3, *SEGMENTS)
    single, whole = make_detector(config), make_detector(config)
    one = [change for x in z if (change := single.update(x))]
    assert len(one) >= 3
    assert same(one, whole.update_many(z))
    assert (single.statistic, single.threshold) == (whole.statistic, whole.threshold)


@each_mode
def test_numbers_beyond_the_limit_count_as_the_limit_one_at_a_time_and_at_once(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    z = stream(3, (60, 0.0))
    z[50] = 1e120
    single, whole = make_detector(config), make_detector(config)
    for x in z:
        single.update(x)
    whole.update_many(z)
    assert repr(single.state_dict()) == repr(whole.state_dict())


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    config=st.sampled_from(CONFIGS),
    cuts=st.lists(st.integers(0, 350), max_size=6),
    seed=st.integers(0, 1000),
)
def test_any_blocks_and_resumes_give_the_same_answers(
    config: DetectionConfig, cuts: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    z = np.concatenate([rng.normal(mean, 1.0, (steps, 6)) for steps, mean in SEGMENTS])
    expected = make_detector(config).update_many(z)
    found, detector = [], make_detector(config)
    for block in np.split(z, sorted(cuts)):
        found += detector.update_many(block)
        state = detector.state_dict()
        detector = make_detector(config)
        detector.load_state_dict(state)
    assert same(found, expected)


@pytest.mark.parametrize("what", ["abc", [[1.0], [1.0, 2.0]], {"a": 1}])
def test_what_holds_no_numbers_is_refused_with_a_sentence(what):
    detector = make_detector(DetectionConfig(window=8, burn_in=30))
    with pytest.raises(MetadriftError, match=r"a detector takes numbers in an array \[D\], not "):
        detector.update(what)
    with pytest.raises(MetadriftError, match=r"a detector takes numbers"):
        detector.update_many(what)
    assert detector.step == 0


@each_mode
def test_after_a_resume_a_vector_of_another_length_is_still_refused(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    before, after = make_detector(config), make_detector(config)
    before.update_many(stream(3, (5, 0.0)))
    after.load_state_dict(before.state_dict())
    with pytest.raises(MetadriftError, match="of step 5 has length 3, those before it"):
        after.update(np.zeros(3))


@each_mode
def test_a_state_taken_at_any_step_goes_on_to_the_same_bits(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    # Every step from before the first change to after its report: also amid its confirmation.
    z = stream(3, *SEGMENTS)[:180]
    detector, states = make_detector(config), []
    record = []
    for x in z:
        states.append(detector.state_dict())
        change = detector.update(x)
        record.append((repr(change), detector.statistic, detector.threshold))
    for step in range(80, 135):
        resumed = make_detector(config)
        resumed.load_state_dict(states[step])
        again = [(repr(resumed.update(x)), resumed.statistic, resumed.threshold) for x in z[step:]]
        assert np.array_equal([r[0] for r in again], [r[0] for r in record[step:]])
        numbers = [r[1:] for r in again]
        assert np.array_equal(numbers, [r[1:] for r in record[step:]], equal_nan=True)


@each_mode
def test_a_state_holds_only_plain_leaves(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    def check(value: Any) -> None:
        if isinstance(value, dict):
            assert all(isinstance(key, str) for key in value)
            for item in value.values():
                check(item)
        elif not isinstance(value, np.ndarray):
            json.dumps(value)

    detector = make_detector(config)
    check(detector.state_dict())
    detector.update_many(stream(0, (60, 0.0)))
    check(detector.state_dict())


@each_mode
def test_numbers_that_are_not_finite_are_refused_and_change_nothing(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    z = stream(1, (60, 0.0))
    detector, untouched = make_detector(config), make_detector(config)
    detector.update_many(z[:50])
    untouched.update_many(z[:50])
    broken = z[50:].copy()
    broken[4, 2] = math.nan
    with pytest.raises(MetadriftError, match="step 54 holds NaN or infinity"):
        detector.update_many(broken)
    with pytest.raises(MetadriftError, match="step 50 holds NaN or infinity"):
        detector.update(np.full(6, math.inf))
    detector.update_many(z[50:])
    untouched.update_many(z[50:])
    assert detector.statistic == untouched.statistic


@each_mode
def test_a_wrong_shape_is_refused(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    detector = make_detector(config)
    detector.update_many(stream(1, (60, 0.0)))
    with pytest.raises(MetadriftError, match="length"):
        detector.update(np.zeros(7))
    with pytest.raises(MetadriftError, match=r"must be \[steps, D\]"):
        detector.update_many(np.zeros(6))


@each_mode
def test_constant_vectors_raise_no_alarm(config: DetectionConfig) -> None:
    assert make_detector(config).update_many(np.full((500, 4), 0.1)) == []


@each_mode
def test_the_callers_array_may_be_reused(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    z = stream(3, *SEGMENTS)
    expected = make_detector(config).update_many(z)
    detector, buffer, found = make_detector(config), np.empty(6), []
    for x in z:
        buffer[:] = x
        if change := detector.update(buffer):
            found.append(change)
    assert same(found, expected)


@each_mode
def test_the_global_generators_are_not_touched(
    config: DetectionConfig, stream: Callable[..., np.ndarray]
) -> None:
    before = repr(np.random.get_state())  # noqa: NPY002  the point of the test
    make_detector(config).update_many(stream(3, *SEGMENTS))
    assert repr(np.random.get_state()) == before  # noqa: NPY002
