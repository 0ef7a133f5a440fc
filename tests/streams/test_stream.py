import gc
from dataclasses import replace

import numpy as np
import pytest
import torch

from metadrift.streams import JointStream, TaskStream, Truth
from metadrift.streams.prefetch import Prefetch
from metadrift.tasks import TaskGeometry

GEOMETRY = TaskGeometry(ways=3, shots=2, queries=2)


def origin(batch):
    """Which tiny pack each task came from, told by its pixels."""
    value = batch.images[:, 0, 0, 4, 4].tolist()
    return ["low" if v < 100 else "mid" if v < 200 else "high" for v in value]


@pytest.fixture
def stream(packs, benchmark_of):
    return TaskStream(benchmark_of(("low", 3), ("high", 2), ("mid", 4)), packs, GEOMETRY, seed=5)


def test_domains_follow_in_their_order_for_their_steps(stream):
    assert [origin(batch)[0] for batch in stream] == ["low"] * 3 + ["high"] * 2 + ["mid"] * 4


def test_grey_domains_are_repeated_to_the_colour_of_the_stream(stream):
    batch = next(stream)
    assert batch.images.shape == (2, 12, 3, 8, 8)
    assert torch.equal(batch.images[:, :, 0], batch.images[:, :, 2])


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(packs, benchmark_of):
    plan = benchmark_of(("low", 4), ("mid", 3))
    one, two, other = (TaskStream(plan, packs, GEOMETRY, seed=s) for s in (1, 1, 2))
    for a, b, c in zip(one, two, other, strict=True):
        assert torch.equal(a.images, b.images)
        assert not torch.equal(a.images, c.images)


def test_a_stream_goes_on_exactly_from_its_state(packs, benchmark_of, stream):
    whole = [batch.images for batch in stream]
    again = TaskStream(benchmark_of(("low", 3), ("high", 2), ("mid", 4)), packs, GEOMETRY, seed=5)
    for _ in range(4):
        next(again)
    fresh = TaskStream(benchmark_of(("low", 3), ("high", 2), ("mid", 4)), packs, GEOMETRY, seed=5)
    fresh.load_state_dict(again.state_dict())
    rest = [batch.images for batch in fresh]
    assert len(rest) == 5
    assert all(torch.equal(a, b) for a, b in zip(whole[4:], rest, strict=True))


def test_training_streams_never_draw_test_classes(packs, benchmark_of):
    for batch in TaskStream(benchmark_of(("low", 40)), packs, GEOMETRY, seed=0):
        assert batch.images[:, :, 0, 4, 4].max() < 6


def test_joint_training_visits_every_domain_once_in_every_round(packs, benchmark_of):
    plan = benchmark_of(("low", 5), ("high", 2), ("mid", 5))
    stream = JointStream(plan, packs, GEOMETRY, seed=0)
    visited = [name for batch in stream for name in origin(batch)]
    assert len(visited) == 24
    rounds = [visited[i : i + 3] for i in range(0, 24, 3)]
    assert all(sorted(r) == ["high", "low", "mid"] for r in rounds)
    assert len({tuple(r) for r in rounds}) > 1


def test_a_batch_cannot_reach_its_domain_or_the_truth(packs, benchmark_of):
    batch = next(TaskStream(benchmark_of(("low", 3)), packs, GEOMETRY, seed=0))
    seen, front = set(), [batch]
    while front:
        thing = front.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing):
            continue
        seen.add(id(thing))
        assert not isinstance(thing, Truth | TaskStream)
        assert thing != "low"
        if not isinstance(thing, torch.Tensor):
            front.extend(r for r in gc.get_referents(thing) if type(r).__name__ != "module")


def test_prefetch_never_changes_the_sequence(packs, benchmark_of):
    plan = benchmark_of(("low", 10), ("high", 10))
    plain = [b.images for b in TaskStream(plan, packs, GEOMETRY, seed=3)]
    with Prefetch(TaskStream(plan, packs, GEOMETRY, seed=3), depth=3) as ahead:
        read = [b.images for b in ahead]
    assert len(read) == 20
    assert all(torch.equal(a, b) for a, b in zip(plain, read, strict=True))


def test_prefetch_speaks_of_what_was_handed_out_and_not_of_what_was_read_ahead(packs, benchmark_of):
    stream = TaskStream(benchmark_of(("low", 10)), packs, GEOMETRY, seed=3)
    with Prefetch(stream, depth=4) as ahead:
        next(ahead)
        next(ahead)
    assert stream.state_dict() == {"step": 2}
    stream.load_state_dict({"step": 7})
    with Prefetch(stream, depth=4) as ahead:
        assert len(list(ahead)) == 3
        assert list(ahead) == []
    assert stream.state_dict() == {"step": 10}


def test_prefetch_hands_on_an_error_of_its_stream(packs, benchmark_of):
    class Broken:
        def __iter__(self):
            return self

        def __next__(self):
            raise RuntimeError("the disk is gone")

        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            pass

    with Prefetch(Broken()) as ahead, pytest.raises(RuntimeError, match="the disk is gone"):
        next(ahead)


def test_prefetch_gives_an_error_again_and_does_not_read_past_it(packs, benchmark_of):
    class FailsOnce(TaskStream):
        def batch(self, step):
            if step == 2:
                raise RuntimeError("the disk is gone")
            return super().batch(step)

    stream = FailsOnce(benchmark_of(("low", 10)), packs, GEOMETRY, seed=3)
    with Prefetch(stream) as ahead:
        next(ahead)
        next(ahead)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="the disk is gone"):
                next(ahead)
    assert stream.state_dict() == {"step": 2}


def test_the_truth_merges_stays_that_follow_each_other_in_one_domain(benchmark_of):
    truth = Truth(benchmark_of(("a", 2), ("a", 3), ("b", 1)).segments)
    assert truth.changes == [5]
    assert truth.domain_at(4) == "a"
    with pytest.raises(IndexError):
        truth.domain_at(6)


def test_domains_that_blend_change_hands_task_by_task(packs, benchmark_of):
    plan = benchmark_of(("low", 20), ("high", 400), tasks=4)
    blended = replace(plan, segments=(plan.segments[0], replace(plan.segments[1], blend=300)))
    stream = TaskStream(blended, packs, GEOMETRY, seed=1)
    share = np.array([origin(batch).count("high") / 4 for batch in stream])
    assert share[:20].max() == 0
    thirds = [part.mean() for part in np.split(share[20:320], 3)]
    assert np.allclose(thirds, [1 / 6, 1 / 2, 5 / 6], atol=0.06)
    assert any(0 < one < 1 for one in share)
    assert share[320:].min() == 1
    plain = TaskStream(plan, packs, GEOMETRY, seed=1)
    for step in (7, 350):  # elsewhere the bytes are those without a blend
        assert torch.equal(stream.batch(step).images, plain.batch(step).images)
    assert torch.equal(stream.batch(100).images, stream.batch(100).images)


def test_several_processes_divide_a_blended_batch(packs, benchmark_of):
    plan = benchmark_of(("low", 2), ("high", 9), tasks=4)
    plan = replace(plan, segments=(plan.segments[0], replace(plan.segments[1], blend=9)))
    whole, part = (TaskStream(plan, packs, GEOMETRY, seed=0) for _ in range(2))
    part.share = slice(2, 4)
    for step in range(2, 11):
        assert torch.equal(whole.batch(step).images[2:], part.batch(step).images)
