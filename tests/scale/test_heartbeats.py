import time

import pytest
import torch.distributed as dist

from metadrift.distributed.heartbeats import Heartbeats


@pytest.fixture
def store():
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def checked_for(beats, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        beats.check()
        time.sleep(0.05)


@pytest.mark.slow
def test_a_process_that_beats_is_waited_for_and_one_that_stops_is_not(store):
    mine, other = (Heartbeats(store, rank, 2, silence=2.5) for rank in (0, 1))
    checked_for(mine, 4)
    other.close()
    with pytest.raises(RuntimeError, match="process 1 gave no sign of life for"):
        checked_for(mine, 6)
    mine.close()


@pytest.mark.slow
def test_time_in_which_nobody_listened_is_not_held_against_the_others(store):
    mine, other = (Heartbeats(store, rank, 2, silence=2.5) for rank in (0, 1))
    mine.check()
    time.sleep(3)  # a long step of this process
    mine.check()
    other.close()
    mine.close()
