"""What a run says about its progress, without a terminal."""

import pytest

from metadrift.runs.progress import RunProgress
from metadrift.storage import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets, and a line for every update."""
    now = [0.0]
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_an_evaluation_right_after_another_has_its_own_speed_and_time_left(clock, capsys):
    bar = RunProgress(100)
    for begin in (0.0, 600.0):
        for second, done in enumerate((10, 20, 30, 40)):
            clock[0] = begin + second
            bar.evaluated(done, 40)
    once = [
        "evaluating: 10 of 40 tasks",
        "evaluating: 20 of 40 tasks, 10 per second, 2 s left",
        "evaluating: 30 of 40 tasks, 10 per second, 1 s left",
        "evaluating: 40 of 40 tasks, 10 per second",
    ]
    assert capsys.readouterr().err.splitlines() == once + once
