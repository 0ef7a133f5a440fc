"""Rehearsal after the stream: copies for evaluation, one per latent domain, chosen by support."""

import copy
import math
from itertools import islice

import numpy as np
import pytest
import torch

from metadrift import registry
from metadrift.distributed.group import Group
from metadrift.examples import Arrays
from metadrift.learners.outcome import accuracy_of
from metadrift.memory import Arrival
from metadrift.methods.base import NonFiniteError
from metadrift.methods.config import OptimConfig
from metadrift.methods.optimisation import Schedule
from metadrift.methods.specialists import NearestDomain, Specialists
from metadrift.tasks import TaskBatch

DARK, BRIGHT = 60, 180


def filled(build_method, batches, name="m2d3-pets", capacity=12, **options):
    """A method whose memory holds two domains, dark and bright."""
    method = build_method(name, capacity=capacity, **options)
    for label, ground in enumerate((DARK, BRIGHT)):
        for tasks in islice(batches(label, ground=ground), capacity // 2):
            shown = label if name == "m2d3-pets" else 0
            assert method.memory.offer(Arrival(tasks, shown)) is not None
    return method


def state_of(method):
    """Everything that the next steps depend on."""
    state = method.state_dict()
    state.pop("specialists", None)
    return copy.deepcopy(state)


def differences(one, two, at=""):
    """Where two states differ."""
    if isinstance(one, dict) and isinstance(two, dict):
        keys = one.keys() | two.keys()
        return [d for k in keys for d in differences(one.get(k), two.get(k), f"{at}.{k}")]
    if isinstance(one, torch.Tensor | np.ndarray):
        return [] if np.asarray(one).tobytes() == np.asarray(two).tobytes() else [at]
    return [] if repr(one) == repr(two) else [at]


def test_each_latent_domain_has_a_copy_and_tasks_find_theirs(build_method, batches):
    method = filled(build_method, batches)
    copies = method.rehearse(4)
    assert sorted(copies.copies) == ["0", "1"]
    assert method.evaluated is copies
    for seed, (label, ground) in enumerate(((0, DARK), (1, BRIGHT), (0, DARK))):
        tasks = next(batches(10 + seed, ground=ground))
        assert copies.router(tasks.support) == [label] * len(tasks)


def test_a_batch_of_mixed_domains_gets_each_copys_own_answers_in_order(build_method, batches):
    method = filled(build_method, batches)
    copies = method.rehearse(8)
    dark, bright = next(batches(10, ground=DARK)), next(batches(11, ground=BRIGHT))
    order = [2, 0, 3, 1]
    mixed = TaskBatch(torch.cat([dark.examples, bright.examples])[order], dark.geometry)
    found = copies.predict(mixed.support, mixed.support_labels, mixed.query)
    alone = [
        copies.copies[str(label)].predict(tasks.support, tasks.support_labels, tasks.query)
        for label, tasks in enumerate((dark, bright))
    ]
    assert torch.allclose(found, torch.cat(alone)[order], atol=1e-5)
    assert not torch.allclose(*(one.predict(dark.support, dark.support_labels, dark.query)
                                for one in copies.each()), atol=1e-3)  # fmt: skip


def test_the_support_decides_for_all_queries_that_share_it(build_method, batches):
    method = filled(build_method, batches)
    copies = method.rehearse(4)
    tasks = next(batches(10, ground=BRIGHT))
    query = tasks.query[0].unsqueeze(1)  # a task for each query
    found = copies.predict(tasks.support[:1], tasks.support_labels, query)
    expected = copies.copies["1"].predict(tasks.support[:1], tasks.support_labels, query)
    assert torch.equal(found, expected)


def test_a_rehearsal_changes_nothing_that_the_stream_goes_on_with(build_method, batches):
    one, two = (filled(build_method, batches) for _ in range(2))
    before = state_of(one)
    one.rehearse(6)
    assert differences(state_of(one), before) == []
    stream = list(islice(batches(5), 4))
    for tasks in stream:
        one.step(tasks)
        two.step(tasks)
    assert differences(state_of(one), state_of(two)) == []


def test_copies_learn_what_memory_holds(build_method, batches):
    method = filled(build_method, batches, lr=0.02)
    method.fresh_tasks.fresh = "off"
    stored = method.memory.buffer.get(list(method.memory.slots_of(0)))

    def accuracy(learner):
        logits = learner.predict(stored.support, stored.support_labels, stored.query)
        return float(accuracy_of(logits).mean())

    before = accuracy(method.evaluated)
    assert accuracy(method.rehearse(80)) > before + 0.05


def test_a_method_without_latent_domains_trains_one_copy_for_all_steps(build_method, batches):
    method = filled(build_method, batches, "reservoir")
    done = []
    copies = method.rehearse(5, done.append)
    assert list(copies.copies) == ["0"]
    assert done == [1] * 5
    tasks = next(batches(10, ground=BRIGHT))
    given = tasks.support, tasks.support_labels, tasks.query
    assert torch.equal(copies.predict(*given), copies.each()[0].predict(*given))


def test_steps_are_divided_among_the_copies_and_too_few_make_none(build_method, batches):
    method = filled(build_method, batches)
    done = []
    method.rehearse(7, done.append)
    assert sum(done) == 6
    assert method.rehearse(1) is None
    assert not isinstance(method.evaluated, Specialists)
    assert build_method("m2d3-pets").rehearse(10) is None  # an empty memory


@pytest.mark.parametrize("name", ["reservoir", "gss", "agem", "mir", "mer", "loss-aware"])
def test_every_method_that_replays_rehearses(name, build_method, batches):
    method = build_method(name)
    for tasks in islice(batches(0), 3):
        method.step(tasks)
    before = [p.detach().clone() for p in method.parameters()]
    copies = method.rehearse(3)
    moved = list(copies.each()[0].parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, moved, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(before, method.parameters(), strict=True))


@pytest.mark.parametrize("learner", registry.built_in("learners"))
def test_copies_of_every_learner_come_back_with_the_same_answers(learner, build_method, batches):
    method = filled(build_method, batches, learner=learner)
    copies = method.rehearse(4)
    again = build_method("m2d3-pets", learner=learner, capacity=12)
    again.load_state_dict(method.state_dict())
    for ground in (DARK, BRIGHT):
        tasks = next(batches(10, ground=ground))
        given = tasks.support, tasks.support_labels, tasks.query
        assert torch.equal(copies.predict(*given), again.evaluated.predict(*given))


def test_the_same_seed_gives_the_same_copies(build_method, batches):
    weights = []
    for _ in range(2):
        copies = filled(build_method, batches).rehearse(6)
        weights.append(torch.cat([p.flatten() for one in copies.each() for p in one.parameters()]))
    assert torch.equal(*weights)


def test_a_rate_that_fell_to_zero_rises_again_for_the_rehearsal(build_method, batches):
    method = filled(build_method, batches)
    method.schedule = Schedule(method.optimizer, OptimConfig(schedule="linear"), 2)
    for _ in range(3):
        method.schedule.step()
    assert method.optimizer.param_groups[0]["lr"] == 0
    copies = method.rehearse(4)
    pairs = zip(method.learner.parameters(), copies.each()[0].parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)
    assert method.optimizer.param_groups[0]["lr"] == 0


def test_a_loss_that_is_not_finite_stops_the_rehearsal_by_name(build_method, batches):
    method = filled(build_method, batches)
    with torch.no_grad():
        next(iter(method.learner.parameters())).fill_(math.nan)
    with pytest.raises(NonFiniteError, match="in the rehearsal after the stream"):
        method.rehearse(4)


def test_a_precision_is_that_of_every_copy(build_method, batches):
    copies = filled(build_method, batches).rehearse(4)
    copies.precision = "bf16"
    assert {one.precision for one in (copies.general, *copies.each())} == {"bf16"}


def test_the_router_counts_a_spread_that_all_domains_have(build_method):
    """A shift along a direction in which tasks vary anyway says less than one along another."""
    rng = np.random.default_rng(0)
    scale = np.array([10.0, 0.1])
    centres = {0: np.array([0.0, 0.0]), 1: np.array([3.0, 1.0])}
    vectors = {label: at + scale * rng.normal(size=(200, 2)) for label, at in centres.items()}
    router = NearestDomain.fitted(Arrays((2,)), vectors, Group())
    assert router(torch.tensor([[[9.0, 0.0]], [[-9.0, 1.0]]])) == [0, 1]
