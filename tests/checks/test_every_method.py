"""What any method must do, whatever its rule. A new one is checked by being in MethodName."""

import gc
import math
from itertools import islice
from typing import get_args

import pytest
import torch

from metadrift.errors import UsageError
from metadrift.methods import MethodName, NonFiniteError, ReplayConfig, ReplayingMethod
from metadrift.streams import TaskStream, Truth

METHODS = get_args(MethodName)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("learner", ["protonet", "anil"])
def test_it_learns_from_what_arrives(name, learner, build_method, batches):
    method = build_method(name, learner, lr=3e-3)
    before = [p.detach().clone() for p in method.parameters()]
    losses = [method.step(tasks).loss for tasks in islice(batches(0), 30)]
    assert all(math.isfinite(loss) for loss in losses)
    assert any(not torch.equal(a, b) for a, b in zip(before, method.parameters(), strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_it_goes_on_from_its_state_to_the_same_bits(name, build_method, batches):
    whole = build_method(name)
    for tasks in islice(batches(1), 40):
        whole.step(tasks)
    first, second = build_method(name), build_method(name)
    stream = batches(1)
    for tasks in islice(stream, 23):
        first.step(tasks)
    second.load_state_dict(first.state_dict())
    records = [second.step(tasks) for tasks in islice(stream, 17)]
    assert len(records) == 17
    for a, b in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", METHODS)
def test_its_state_is_a_copy(name, build_method, batches):
    method, stream = build_method(name), batches(2)
    for tasks in islice(stream, 12):
        method.step(tasks)
    state = method.state_dict()
    kept = {key: value.clone() for key, value in state["learner"].items()}
    for tasks in islice(stream, 5):
        method.step(tasks)
    assert all(torch.equal(kept[key], state["learner"][key]) for key in kept)


@pytest.mark.parametrize("name", METHODS)
def test_a_loss_that_is_not_finite_never_reaches_the_weights(name, build_method, batches):
    method, stream = build_method(name), batches(3)
    for tasks in islice(stream, 8):
        method.step(tasks)
    parameter = method.parameters()[0]
    with torch.no_grad():
        parameter[0] = math.nan
    before = [p.detach().clone() for p in method.parameters()]
    with pytest.raises(NonFiniteError, match="nan"):
        method.step(next(stream))
    for a, b in zip(before, method.parameters(), strict=True):
        assert torch.equal(a.nan_to_num(7), b.nan_to_num(7))


@pytest.mark.parametrize("name", [name for name in METHODS if name != "sequential"])
def test_the_memory_never_exceeds_its_capacity(name, build_method, batches):
    method = build_method(name, capacity=4)
    for tasks in islice(batches(4), 20):
        method.step(tasks)
    assert isinstance(method, ReplayingMethod)
    assert len(method.memory) == 4
    assert len(set(method.memory.step.tolist())) == 4


@pytest.mark.parametrize("name", ["reservoir", "mir", "gss", "m2d3-pets", "loss-aware"])
@pytest.mark.parametrize(
    "option",
    [{"augment": 0.2}, {"turn": 0.75}, {"balance": True}, {"batches": 3}],
)
def test_every_help_for_replay_is_there_for_every_method(name, option, build_method, batches):
    method = build_method(name, replay=ReplayConfig(**option))
    records = [method.step(tasks) for tasks in islice(batches(5), 12)]
    assert all(math.isfinite(record.replay_loss) for record in records[1:])


@pytest.mark.parametrize("option", [{"augment": 0.2}, {"turn": 0.75}])
def test_mer_has_the_helps_that_change_what_is_replayed(option, build_method, batches):
    method = build_method("mer", replay=ReplayConfig(**option))
    records = [method.step(tasks) for tasks in islice(batches(5), 12)]
    assert all(math.isfinite(record.replay_loss) for record in records[1:])


@pytest.mark.parametrize("name", ["agem", "mer"])
@pytest.mark.parametrize("option", [{"balance": True}, {"dark": 0.1}])
def test_a_help_that_would_do_nothing_is_refused(name, option, build_method):
    with pytest.raises(UsageError, match=f"{name} has no replay term"):
        build_method(name, replay=ReplayConfig(**option))


@pytest.mark.parametrize("name", [m for m in METHODS if m != "balanced-oracle"])
def test_no_method_can_reach_the_truth(name, build_method, batches):
    method = build_method(name)
    for tasks in islice(batches(6), 5):
        method.step(tasks)
    seen, front = set(), [method]
    while front:
        thing = front.pop()
        if id(thing) in seen or isinstance(thing, type) or type(thing).__name__ == "module":
            continue
        seen.add(id(thing))
        assert not isinstance(thing, Truth | TaskStream), f"{name} reaches {thing!r}"
        if not callable(thing) or thing is method or isinstance(thing, torch.nn.Module):
            front.extend(gc.get_referents(thing))
