import pytest

from metadrift.errors import UsageError
from metadrift.evaluation.detection import score_detection
from metadrift.evaluation.metrics import (
    area_under_average,
    average,
    backward_transfer,
    forgetting,
    worst_domain,
)

STAGES = [
    {"a": 0.8, "b": 0.3, "c": 0.2},
    {"a": 0.85, "b": 0.7, "c": 0.25},
    {"a": 0.5, "b": 0.6, "c": 0.9},
]


def test_average_and_worst_domain_count_every_domain_once():
    assert average(STAGES[2]) == pytest.approx(2.0 / 3)
    assert worst_domain(STAGES[2]) == ("a", 0.5)


def test_forgetting_is_the_fall_from_the_best_since_a_domain_was_learned():
    # a: best .85 (after b) - .5; b: .7 - .6. Before its own stay, b's accuracy does not count.
    assert forgetting(STAGES, ["a", "b", "c"]) == pytest.approx((0.35 + 0.1) / 2)


def test_backward_transfer_compares_with_the_end_of_the_last_stay():
    assert backward_transfer(STAGES, ["a", "b", "c"]) == pytest.approx((-0.3 - 0.1) / 2)
    # a is visited again just before the end: only its second stay counts
    assert backward_transfer(STAGES, ["a", "a", "c"]) == pytest.approx(-0.35)


def test_with_one_stay_nothing_can_be_forgotten():
    assert forgetting([{"a": 0.5}], ["a"]) is None
    assert backward_transfer([{"a": 0.5}], ["a"]) is None


def test_the_area_weighs_evaluations_by_the_steps_between_them():
    stages = [{"a": 0.0}, {"a": 1.0}, {"a": 1.0}]
    assert area_under_average(stages, [0, 10, 40]) == pytest.approx((5 + 30) / 40)
    assert area_under_average([{"a": 0.4}], [7]) == 0.4


def test_numbers_that_do_not_fit_together_are_refused():
    with pytest.raises(UsageError, match="do not fit together"):
        forgetting(STAGES, ["a"])
    with pytest.raises(UsageError, match="do not fit together"):
        area_under_average(STAGES, [1])


@pytest.mark.parametrize(
    ("reports", "found", "false", "delay"),
    [
        ([], 0, 0, None),
        ([100], 1, 0, 0.0),  # at the very step of the change
        ([99, 130], 1, 1, 30.0),  # before the first change: false
        ([130, 140], 1, 1, 30.0),  # reported twice: once too often
        ([199], 1, 0, 99.0),
        ([200], 1, 0, 0.0),  # belongs to the change at 200 alone
        ([110, 260], 2, 0, 35.0),
    ],
)
def test_detections_are_attributed_once(reports, found, false, delay):
    score = score_detection([100, 200], reports, steps=300)
    assert (score.detected, score.false_alarms) == (found, false)
    if delay is None:
        assert score.mean_delay != score.mean_delay
    else:
        assert score.mean_delay == delay


def test_a_stream_without_changes_scores_one_unless_there_is_an_alarm():
    assert score_detection([], [], steps=10).f1 == 1.0
    assert score_detection([], [3], steps=10).f1 == 0.0


def test_a_domain_without_classes_to_test_is_left_out_of_forgetting():
    stages = [{"a": 0.9, "c": 0.1}, {"a": 0.7, "c": 0.2}, {"a": 0.6, "c": 0.8}]
    assert forgetting(stages, ["a", "b", "c"]) == pytest.approx(0.3)
    assert backward_transfer(stages, ["a", "b", "c"]) == pytest.approx(-0.3)
