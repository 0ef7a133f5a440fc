from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import MetadriftError
from metadrift.evaluation.metrics import area_under_curve, summarise


def test_a_run_of_three_domains_worked_by_hand():
    accuracy = np.array([[0.9, 0.2, 0.3], [0.7, 0.8, 0.4], [0.6, 0.9, 0.5]])
    run = summarise(accuracy, ["a", "b", "c"], steps=[10, 20, 40], seen=["a", "b", "c"])
    assert run.average == pytest.approx(2.0 / 3)
    assert (run.worst_domain, run.worst_domain_name) == (0.5, "c")
    # a fell from .9 to .6; b rose from .8 to .9 and so forgot minus .1; c was learned last
    assert run.forgetting == pytest.approx((0.3 - 0.1) / 2)
    assert run.backward_transfer == pytest.approx((-0.3 + 0.1) / 2)
    means = accuracy.mean(1)
    area = (10 * (means[0] + means[1]) / 2 + 20 * (means[1] + means[2]) / 2) / 30
    assert run.area == pytest.approx(area)


def test_a_domain_that_comes_back_is_counted_from_its_last_visit():
    accuracy = np.array([[0.9, 0.2], [0.5, 0.8], [0.8, 0.6]])
    run = summarise(accuracy, ["a", "b"], steps=[1, 2, 3], seen=["a", "b", "a"])
    assert run.forgetting == pytest.approx(0.2)  # b only: a was seen at the end
    assert run.backward_transfer == pytest.approx(-0.2)


def test_accuracy_before_a_domain_was_seen_is_not_forgotten():
    accuracy = np.array([[0.5, 0.9, 0.1], [0.5, 0.6, 0.1], [0.5, 0.6, 0.1]])
    run = summarise(accuracy, ["a", "b", "c"], steps=[1, 2, 3], seen=["a", "b", "c"])
    assert run.forgetting == pytest.approx(0.0)


def test_one_segment_has_nothing_to_forget():
    run = summarise(np.array([[0.4, 0.6]]), ["a", "b"], steps=[5], seen=["a"])
    assert math.isnan(run.forgetting)
    assert math.isnan(run.backward_transfer)
    assert run.area == run.average == 0.5


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.data())
def test_the_area_lies_between_the_least_and_the_most(values, data):
    gaps = data.draw(st.lists(st.integers(1, 50), min_size=len(values), max_size=len(values)))
    area = area_under_curve(np.cumsum(gaps).tolist(), values)
    assert min(values) - 1e-9 <= area <= max(values) + 1e-9


def test_wrong_matrices_are_refused():
    with pytest.raises(MetadriftError, match="shape"):
        summarise(np.zeros((2, 2)), ["a"], steps=[1, 2], seen=["a", "a"])
    with pytest.raises(MetadriftError, match="'b' has no column"):
        summarise(np.zeros((1, 1)), ["a"], steps=[1], seen=["b"])
    with pytest.raises(MetadriftError, match="rise"):
        summarise(np.zeros((2, 1)), ["a"], steps=[2, 2], seen=["a", "a"])
