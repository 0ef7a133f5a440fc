from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import MetadriftError
from metadrift.memory import Arrivals

STREAM = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1e6)), max_size=40)


@given(stream=STREAM, since=st.integers(-3, 45), label=st.integers(0, 5), after=STREAM)
@settings(deadline=None, max_examples=200)
def test_after_relabelling_all_is_as_if_it_had_been_known(
    stream: list[tuple[int, float]], since: int, label: int, after: list[tuple[int, float]]
) -> None:
    late, known = Arrivals(), Arrivals()
    for old, value in stream:
        late.arrive(old, value)
    late.relabel(since, label)
    for step, (old, value) in enumerate(stream):
        known.arrive(label if step >= since else old, value)
    for arrivals in (late, known):
        for old, value in after:
            arrivals.arrive(old, value)
        arrivals.relabel(len(stream), 9)
    assert late.seen == known.seen
    assert late.importance == known.importance
    assert late.steps == known.steps


def test_the_average_moves_at_its_rate_from_the_first_value() -> None:
    arrivals = Arrivals(rate=0.02)
    arrivals.arrive(3, 10.0)
    assert arrivals.importance == {3: 10.0}
    arrivals.arrive(3, 20.0)
    assert arrivals.importance[3] == pytest.approx(10.2)
    arrivals.observe(3, 0.0)
    assert arrivals.importance[3] == pytest.approx(9.996)
    assert arrivals.seen == {3: 2}
    arrivals.observe(4, 1.0)  # nothing has arrived of 4
    assert 4 not in arrivals.importance


def test_a_change_older_than_the_history_is_refused() -> None:
    arrivals = Arrivals(history=10)
    for _ in range(25):
        arrivals.arrive(0, 1.0)
    arrivals.relabel(15, 1)
    assert arrivals.seen == {0: 15, 1: 10}
    with pytest.raises(MetadriftError, match="for the last 10"):
        arrivals.relabel(14, 1)
