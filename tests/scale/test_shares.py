"""What a group divides, and that the parts make the whole."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from metadrift.distributed.group import Group
from metadrift.distributed.resharding import slots_to_keep, with_slots
from metadrift.distributed.shards import my_memory
from metadrift.errors import UsageError
from metadrift.examples import Pictures
from metadrift.memory import Arrival, Buffer, LossAwareMemory, M2D3Memory, ReservoirMemory
from metadrift.methods.config import ReplayConfig
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import PETS, UniformReplay
from metadrift.runs.build import plan
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=2, shots=1, queries=1)


def seat(rank, size):
    group = Group()
    group.rank, group.size = rank, size
    return group


def filled(kind, capacity, labels, tasks=12, **options):
    """A memory whose every task is a number of its own: 16 * step + task."""
    memory = kind(
        Buffer(capacity, tasks, GEOMETRY, Pictures(2, 1)), np.random.default_rng(0), **options
    )
    for step, label in enumerate(labels):
        values = (16 * step + torch.arange(tasks)).to(torch.uint8)
        images = values[:, None, None, None, None].expand(tasks, 4, 1, 2, 2)
        memory.offer(Arrival(TaskBatch(images.clone(), GEOMETRY), label, 1.0 + step))
    return memory


def test_a_process_draws_tasks_of_its_own_and_all_make_the_step():
    taken = [list(range(12))[seat(rank, 4).share(12)] for rank in range(4)]
    assert [task for part in taken for task in part] == list(range(12))
    assert len({len(part) for part in taken}) == 1


@settings(deadline=None, max_examples=25)
@given(st.sampled_from([1, 2, 3, 4, 6]), st.sampled_from([1, 2, 3, 4, 6, 12]))
def test_the_batches_of_n_processes_are_divided_anew_among_m(tmp_path_factory, n, m):
    place = tmp_path_factory.mktemp("shards")
    state = filled(ReservoirMemory, 5, [0] * 5).state_dict()
    whole = state["buffer"]["images"]
    for rank in range(1, n):
        save_file(
            {"images": np.ascontiguousarray(whole[:, seat(rank, n).share(12)])},
            place / f"shard-{rank}.safetensors",
        )
    first = {**state["buffer"], "images": whole[:, seat(0, n).share(12)]}
    state = {**state, "buffer": first}
    rng = np.random.default_rng(0)
    parts = [my_memory(place, state, n, seat(rank, m), 5, rng) for rank in range(m)]
    images = np.concatenate([part["buffer"]["images"] for part in parts], axis=1)
    assert np.array_equal(images, whole)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=15), st.integers(1, 15))
@example([0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 3, 2, 2], 10)
def test_a_memory_that_shrinks_keeps_every_domains_share(labels, capacity):
    memory = filled(M2D3Memory, 15, labels, tasks=1)
    state = memory.state_dict()
    kept = slots_to_keep(state, capacity, np.random.default_rng(1))
    assert len(kept) == min(capacity, len(labels))
    smaller = M2D3Memory(Buffer(capacity, 1, GEOMETRY, Pictures(2, 1)), np.random.default_rng(2))
    images = {name: state["buffer"][name] for name in ("logits",)}
    images |= {name: state["buffer"][name][kept] for name in ("images", "has_logits")}
    smaller.load_state_dict({**with_slots(state, kept), "buffer": images})
    for label, stored in memory.counts().items():
        fair = stored * len(kept) / len(labels)
        now = smaller.counts().get(label, 0)
        slack = len(memory.counts()) if fair < 1 or len(kept) < 10 else 1
        assert abs(now - fair) <= max(1, slack)
        assert now >= 1 or capacity < len(memory.counts())
    for slot in range(len(smaller)):
        step = int(smaller.step[slot])
        assert smaller.label[slot] == labels[step]
        assert int(smaller.buffer.get([slot]).images[0, 0, 0, 0, 0]) == 16 * step % 256
    smaller.offer(Arrival(smaller.buffer.get([0]), 9))


def test_a_loss_aware_memory_that_shrinks_keeps_its_largest_keys():
    state = filled(LossAwareMemory, 9, [0] * 9, tasks=1).state_dict()
    kept = slots_to_keep(state, 4, np.random.default_rng(0))
    smaller = with_slots(state, kept)
    assert sorted(smaller["heap_keys"]) == sorted(state["heap_keys"])[-4:]
    assert sorted(smaller["heap_slots"]) == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["uniform", "pets"])
def test_replay_of_several_processes_is_unbiased_for_the_whole_memory(sampler):
    """Three processes with two of six tasks each; the estimate is the mean over processes."""
    labels = [0, 0, 0, 0, 1, 2, 2]
    whole = filled(M2D3Memory, 7, labels, tasks=6)
    values = np.array([[16.0 * step + t for t in range(6)] for step in range(7)])
    values[4] *= 3  # a hard domain
    methods = [replaying(seat(rank, 3), whole, sampler) for rank in range(3)]
    estimates, drawn = [], []
    for _ in range(3000):
        parts = [method.draw() for method in methods]
        drawn.append(tuple(replay.slot for part in parts for replay in part))
        terms = [
            replay.weight * values[replay.slot, seat(rank, 3).share(6)].mean()
            for rank, part in enumerate(parts)
            for replay in part
        ]
        estimates.append(np.mean(terms))
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx(values.mean(), abs=4 * error)
    # What the processes draw is one draw of as many batches, shared out.
    alone = replaying(seat(0, 1), whole, sampler, batches=6)
    assert [tuple(replay.slot for replay in alone.draw()) for _ in range(20)] == drawn[:20]
    assert len({method.rng.random() for method in methods}) == 1


def replaying(group, whole, sampler, batches=2):
    """A method with this process's part of the memory, in as far as it draws."""
    state = whole.state_dict()
    mine = my_memory(None, state, 1, group, 7, np.random.default_rng(0))
    memory = M2D3Memory(
        Buffer(7, 6 // group.size, GEOMETRY, Pictures(2, 1)), np.random.default_rng(0)
    )
    memory.load_state_dict(mine)
    chosen = UniformReplay()
    if sampler == "pets":
        chosen = PETS()
        for label, importance in ((0, 1.0), (1, 4.0), (2, 2.0)):
            chosen.observe(label, importance)
    learner = torch.nn.Linear(1, 1)
    method = ReplayingMethod(
        learner,
        torch.optim.SGD(learner.parameters(), lr=0.1),
        memory,
        ReplayConfig(batches=batches),
        np.random.default_rng(5),
        chosen,
    )
    method.group = group
    return method


@pytest.mark.parametrize("method", ["agem", "mir", "mer", "gss"])
def test_a_method_for_one_process_says_which_run_on_several(method, config):
    with pytest.raises(UsageError, match=r"runs in one process; on several run sequential, .*m2d3"):
        plan(replace(config, method=method), seat(0, 2))


def test_processes_that_cannot_divide_a_step_are_told_what_can(config):
    with pytest.raises(UsageError, match="3 processes cannot divide the 4 tasks per step"):
        plan(config, seat(0, 3))
