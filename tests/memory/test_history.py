from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.memory import LabelHistory

STREAM = st.lists(st.integers(0, 3), max_size=40)


@pytest.mark.slow
@given(
    stream=STREAM,
    since=st.integers(-3, 45),
    label=st.integers(0, 5),
    after=STREAM,
    again=st.integers(0, 90),
)
@settings(deadline=None, max_examples=300)
def test_after_relabelling_all_is_as_if_it_had_been_known(
    stream: list[int], since: int, label: int, after: list[int], again: int
) -> None:
    history = LabelHistory()
    for old in stream:
        history.arrive(old)
    history.relabel(since, label)
    known = [label if step >= since else old for step, old in enumerate(stream)]
    assert history.seen == Counter(known)
    resumed = LabelHistory()
    resumed.load_state_dict(history.state_dict())
    known += after
    known = [9 if step >= again else old for step, old in enumerate(known)]
    for each in (history, resumed):
        for old in after:
            each.arrive(old)
        each.relabel(again, 9)
        assert each.seen == Counter(known)
        assert each.steps == len(known)


def test_a_change_can_be_dated_back_any_number_of_steps() -> None:
    history = LabelHistory()
    for _ in range(20_000):
        history.arrive(0)
    history.relabel(100, 1)
    assert history.seen == {0: 100, 1: 19_900}


def test_the_history_grows_with_the_changes_and_not_with_the_stream() -> None:
    history = LabelHistory()
    for step in range(10_000):
        history.arrive(step // 2500)
    assert len(history.state_dict()["labels"]) == 4
