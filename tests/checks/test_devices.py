"""A step of every method and learner on a device that is not the CPU.

There is no GPU here: see pretend_device.py for what stands in for one.
"""

from itertools import islice

import pytest
import torch

from metadrift import registry
from metadrift.detection import DetectionConfig, make_detector
from metadrift.detection.features import make_features
from metadrift.examples import Pictures
from metadrift.learners import make_learner
from metadrift.memory import Buffer
from metadrift.methods import ReplayConfig
from metadrift.methods.make import make_method
from metadrift.runs.guard import WeightGuard
from metadrift.tasks import TaskGeometry
from pretend_device import OnDevice, PretendDevice, put_on_device

GEOMETRY = TaskGeometry(ways=3, shots=1, queries=2)
# MIR chooses by losses what it replays, and must wait for them; the others wait once in a step.
ALLOWED = {"mir": 2}
LEARNERS = [
    pytest.param(name, marks=pytest.mark.slow) if name == "maml" else name
    for name in registry.built_in("learners")
]


def made(name, learner="protonet", *, features="frozen", normalisation="batch", **replay):
    options = {"inner_steps": 1} if learner in ("anil", "maml") else {}
    options |= {"filters": 4, "normalisation": normalisation}
    net = make_learner(learner, image_size=12, ways=3, generator=0, **options)
    put_on_device(net)
    settings = DetectionConfig(features=features).scaled(0.05)
    return make_method(
        name,
        net,
        torch.optim.Adam(net.parameters(), lr=1e-3),
        seed=0,
        buffer=Buffer(2, 2, GEOMETRY, Pictures(12, 1), logits=replay.get("dark", 0) > 0),
        features=make_features(settings, Pictures(12, 1)),
        detector=make_detector(settings),
        replay=ReplayConfig(**{"refresh_every": 0, **replay}),
        fresh="off" if replay.get("dark") else "all",
    )


def steps_of(method, stream):
    """What made the host wait, step by step, after some steps that fill the memory."""
    waits = []
    for n, tasks in enumerate(islice(stream, 5)):
        with PretendDevice() as device:
            record = method.step(tasks)
            method.after_step()
        assert record.loss == record.loss
        if n > 2:
            waits.append(device.waits)
    assert all(isinstance(p, OnDevice) for p in method.parameters())
    return waits


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", registry.built_in("methods"))
def test_a_step_stays_on_its_device_and_waits_for_it_once(name, learner, batches):
    for waits in steps_of(made(name, learner), batches(0)):
        assert len(waits) <= ALLOWED.get(name, 1), waits


@pytest.mark.parametrize("normalisation", ["batch", "running"])
@pytest.mark.parametrize("replay", [{"balance": True}, {"dark": 0.5}, {"refresh_every": 1}])
def test_options_stay_on_the_device_too(replay, normalisation, batches):
    method = made("m2d3-pets", normalisation=normalisation, **replay)
    method.clip = 0.1
    steps_of(method, batches(0))


@pytest.mark.parametrize("learner", ["protonet", "ridge"])
def test_tasks_put_together_stay_on_the_device(learner, batches):
    method = made("reservoir", learner)
    method.tasks_together = 2
    for waits in steps_of(method, batches(0)):
        assert len(waits) <= 1, waits


def test_the_guard_of_a_run_waits_once_more(batches):
    method = made("reservoir")
    with PretendDevice() as device, WeightGuard(method.learner):
        method.step(next(batches(0)))
    assert len(device.waits) == 2


@pytest.mark.parametrize("features", ["network", "both", "paper_z"])
def test_detection_that_looks_at_the_network_works_there(features, batches):
    steps_of(made("m2d3-pets", features=features), batches(0))


def test_a_tensor_on_the_wrong_device_is_noticed(batches):
    method = made("sequential")
    method.learner.backbone.register_forward_hook(lambda _, __, y: y * torch.ones(y.shape[1]))
    with pytest.raises(AssertionError, match="mixes the device with a tensor of the CPU"):
        steps_of(method, batches(0))


def test_numbers_that_are_read_back_are_noticed(batches):
    method = made("sequential")
    method.learner.backbone.register_forward_hook(lambda _, __, y: y * (1 + 0 * y.sum().item()))
    assert all(len(waits) == 2 for waits in steps_of(method, batches(0)))
