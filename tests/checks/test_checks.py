"""The checks that users run on their own parts: ours pass them, and what is broken is named."""

import dataclasses
import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from metadrift import checks, registry
from metadrift.detection import Change, ChangeDetector, FeatureExtractor, PaperDetector
from metadrift.learners import find_learner
from metadrift.learners.protonet import ProtoNet
from metadrift.memory import ReservoirMemory
from metadrift.methods import ReplayingMethod
from metadrift.methods.make import find_method
from metadrift.replay import UniformReplay


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.built_in("methods"))
def test_every_method_of_ours_passes(name):
    checks.check_method(find_method(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.built_in("learners"))
def test_every_learner_of_ours_passes(name):
    checks.check_learner(find_learner(name))


@pytest.mark.parametrize("name", registry.built_in("memories"))
def test_every_memory_of_ours_passes(name):
    checks.check_memory(registry.find("memories", name))


@pytest.mark.parametrize("name", registry.built_in("samplers"))
def test_every_sampler_of_ours_passes(name):
    checks.check_sampler(registry.find("samplers", name))


@pytest.mark.parametrize("name", registry.built_in("detectors"))
def test_every_detector_of_ours_passes(name):
    checks.check_detector(registry.find("detectors", name))


class Brightness(FeatureExtractor):
    def __call__(self, tasks, embedding=None):
        return tasks.support.double().mean()[None].numpy()


def test_features_pass():
    checks.check_features(Brightness)


class WithOptions(ReplayingMethod):
    @dataclass(frozen=True)
    class Options:
        times: int = 1

    def step(self, tasks):
        for _ in range(self.options.times):
            record = super().step(tasks)
        return record


def test_options_are_handed_to_the_part():
    checks.check_method(WithOptions, {"times": 2})
    with pytest.raises(Exception, match="times must be a whole number"):
        checks.check_method(WithOptions, {"times": "often"})


class Rolls(ReplayingMethod):
    def step(self, tasks):
        random.random()
        return super().step(tasks)


class Idle(ReplayingMethod):
    def take_step(self, outcome, *more):
        return self.read(outcome, torch.zeros(()))


class Counts(ReplayingMethod):
    steps = 0

    def step(self, tasks):
        self.steps += 1
        return dataclasses.replace(super().step(tasks), extra={"steps": self.steps})


class Unsaved(Counts):
    def state_dict(self):
        return super().state_dict() | {"what": object()}


class Aliased(ReplayingMethod):
    def state_dict(self):
        return super().state_dict() | {"learner": self.learner.state_dict()}


class Blind(ReplayingMethod):
    def read(self, outcome, norm, *more):
        return dataclasses.replace(outcome, loss=0.5, accuracy=0.5, importance=1.0)


class Spoils(ReplayingMethod):
    def step(self, tasks):
        record = super().step(tasks)
        tasks.images.zero_()
        return record


class NoRecord(ReplayingMethod):
    def step(self, tasks):
        super().step(tasks)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Rolls, "Rolls draws from the global generator of random"),
        (Idle, "Idle learns nothing: no weight moved"),
        (Counts, "Counts gives other numbers after load_state_dict"),
        (Unsaved, "the state_dict of Unsaved cannot be saved"),
        (Aliased, "the state_dict of Aliased is no copy"),
        (Blind, "Blind continues with a loss that is NaN"),
        (Spoils, "Spoils.step changes the tasks it is given"),
        (NoRecord, "NoRecord.step must give a StepRecord"),
    ],
)
def test_a_broken_method_is_named(kind, sentence):
    with pytest.raises(AssertionError, match=sentence):
        checks.check_method(kind)


def test_a_method_that_holds_the_stream_is_named():
    class Peeks(ReplayingMethod):
        def step(self, tasks):
            found = [o for o in checks.gc.get_objects() if type(o) is checks.TaskStream]
            self.stream = found[0]
            return super().step(tasks)

    with pytest.raises(AssertionError, match="can reach the truth about domains"):
        checks.check_method(Peeks)


class Noisy(ProtoNet):
    def logits(self, support, labels, query, ways):
        return super().logits(support, labels, query, ways) + torch.rand(1)


class Mixed(ProtoNet):
    def logits(self, support, labels, query, ways):
        return super().logits(support, labels, query, ways) + query.mean()


class Idler(ProtoNet):
    def __init__(self, *given):
        super().__init__(*given)
        self.unused = torch.nn.Parameter(torch.zeros(1))


class Forgets(ProtoNet):
    made = 0

    def __init__(self, *given):
        super().__init__(*given)
        Forgets.made += 1
        self.factor = 1.0 + Forgets.made

    def logits(self, support, labels, query, ways):
        return self.factor * super().logits(support, labels, query, ways)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Noisy, "Noisy draws from the global generator of torch"),
        (Mixed, "in Mixed the logits of a task depend on the other tasks"),
        (Idler, "the loss of Idler does not depend on its weight unused"),
        (Forgets, "Forgets keeps something|in Forgets the logits"),
    ],
)
def test_a_broken_learner_is_named(kind, sentence):
    with pytest.raises(AssertionError, match=sentence):
        checks.check_learner(kind)


class Shaky(ReservoirMemory):
    def admit(self, arrival):
        np.random.rand()  # noqa: NPY002
        return super().admit(arrival)


class Deaf(ReservoirMemory):
    def admit(self, arrival):
        return None


class Amnesic(ReservoirMemory):
    count = 0

    def admit(self, arrival):
        self.count += 1
        return len(self) if not self.full else self.count % 8


class Thirds(Amnesic):
    def admit(self, arrival):
        self.count += 1
        return None if self.count % 3 == 0 else len(self) % 8


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Shaky, "Shaky draws from the global generator of numpy.random"),
        (Deaf, "Deaf took none of 31 batches"),
        (Amnesic, "Amnesic gives other numbers after load_state_dict"),
        (Thirds, "Thirds gives other numbers after load_state_dict"),
    ],
)
def test_a_broken_memory_is_named(kind, sentence):
    with pytest.raises(AssertionError, match=sentence):
        checks.check_memory(kind)


class Beyond(UniformReplay):
    def choose(self, memory, n, rng):
        return ([6] * n, [1.0] * n) if len(memory) else ([], [])


class Negative(UniformReplay):
    def choose(self, memory, n, rng):
        slots, weights = super().choose(memory, n, rng)
        return slots, [-weight for weight in weights]


class InOrder(UniformReplay):
    turn = 0

    def choose(self, memory, n, rng):
        self.turn += 1
        return ([self.turn % len(memory)], [1.0]) if len(memory) else ([], [])


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Beyond, "Beyond draws slot 6 of a memory of 6"),
        (Negative, "Negative gives weights"),
        (InOrder, "InOrder gives other numbers after load_state_dict"),
    ],
)
def test_a_broken_sampler_is_named(kind, sentence):
    with pytest.raises(AssertionError, match=sentence):
        checks.check_sampler(kind)


class Every(ChangeDetector):
    def __init__(self, config):
        super().__init__()
        self.count = 0

    def _take(self, vector):
        now, self.step = self.step, self.step + 1
        self.count += 1
        return Change(now, now, 0.0, 1.0) if self.count % 7 == 0 else None


class Future(Every):
    def _take(self, vector):
        self.step += 1
        return Change(self.step, self.step + 9, 0.0, 1.0)


class Silent(PaperDetector):
    def update(self, embedding):
        return self._take(np.nan_to_num(embedding))


class Stands(Every):
    def _take(self, vector):
        return None


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Every, "Every gives other numbers after load_state_dict"),
        (Future, "Future reports a change outside of the stream"),
        (Silent, "Silent accepts NaN"),
        (Stands, "Stands counts 0 steps after 160"),
    ],
)
def test_a_broken_detector_is_named(kind, sentence):
    with pytest.raises(AssertionError, match=sentence):
        checks.check_detector(kind)


class Grows(FeatureExtractor):
    def __init__(self, config):
        self.count = 0

    def __call__(self, tasks, embedding=None):
        self.count += 1
        return np.zeros(self.count)


class Drifts(Grows):
    def __call__(self, tasks, embedding=None):
        self.count += 1
        return np.full(2, float(self.count))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Grows, "Grows gives vectors of several lengths"),
        (Drifts, "Drifts gives other numbers after load_state_dict"),
    ],
)
def test_broken_features_are_named(kind, sentence):
    with pytest.raises(AssertionError, match=sentence):
        checks.check_features(kind)
