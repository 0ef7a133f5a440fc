import pytest

from metadrift.errors import UsageError
from metadrift.evaluation.detection import score_detection, score_labels
from metadrift.evaluation.metrics import backward_transfer, forgetting, worst_domain
from metadrift.streams.benchmark import Segment
from metadrift.streams.truth import Truth

STAGES = [
    {"a": 0.8, "b": 0.3, "c": 0.2},
    {"a": 0.85, "b": 0.7, "c": 0.25},
    {"a": 0.5, "b": 0.6, "c": 0.9},
]


def test_only_the_steps_inside_a_stay_count_for_its_label():
    truth = Truth([Segment("a", 2), Segment("b", 30)])
    # Label 0 has a's two steps. Label 1 has none of them, in three spans of its own.
    stays = [(0, 0), (2, 1), (10, 2), (12, 1), (20, 3), (22, 1)]
    assert score_labels(truth, stays).wrong_labels == 0
    assert score_labels(truth, [(0, 0), (1, 1), (2, 0)]).wrong_labels == 1


def test_the_worst_domain_is_the_one_with_the_lowest_accuracy():
    assert worst_domain(STAGES[2]) == ("a", 0.5)


def test_forgetting_is_the_fall_from_the_best_since_a_domain_was_learned():
    # a: best .85 (after b) - .5; b: .7 - .6.
    assert forgetting(STAGES, ["a", "b", "c"]) == pytest.approx((0.35 + 0.1) / 2)


def test_what_was_right_before_a_domain_was_learned_cannot_be_forgotten():
    lucky = [STAGES[0] | {"b": 0.99}, *STAGES[1:]]
    assert forgetting(lucky, ["a", "b", "c"]) == forgetting(STAGES, ["a", "b", "c"])


def test_a_domain_that_comes_back_is_learned_from_its_first_stay_on():
    stages = [
        {"a": 0.9, "b": 0.2},
        {"a": 0.4, "b": 0.8},
        {"a": 0.7, "b": 0.6},
        {"a": 0.6, "b": 0.7},
    ]
    stays = ["a", "b", "a", "b"]
    assert forgetting(stages, stays) == pytest.approx(0.3)  # of a: .9 - .6; b has the last stay
    assert backward_transfer(stages, stays) == pytest.approx(-0.1)


def test_backward_transfer_compares_with_the_end_of_the_last_stay():
    assert backward_transfer(STAGES, ["a", "b", "c"]) == pytest.approx((-0.3 - 0.1) / 2)
    # a is visited again just before the end: only its second stay counts
    assert backward_transfer(STAGES, ["a", "a", "c"]) == pytest.approx(-0.35)


def test_with_one_stay_nothing_can_be_forgotten():
    assert forgetting([{"a": 0.5}], ["a"]) is None
    assert backward_transfer([{"a": 0.5}], ["a"]) is None


def test_numbers_that_do_not_fit_together_are_refused():
    with pytest.raises(UsageError, match="do not fit together"):
        forgetting(STAGES, ["a"])


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
