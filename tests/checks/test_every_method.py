"""What a method must do in this package, besides what `metadrift.checks` asks of any method."""

from itertools import islice

import pytest
import torch

from metadrift import registry
from metadrift.checks import leaks
from metadrift.errors import UsageError
from metadrift.methods import (
    BaselineConfig,
    MemoryConfig,
    ReplayConfig,
    ReplayingMethod,
    TransformConfig,
)
from metadrift.replay import Shift, Turn
from metadrift.runs.build import build
from metadrift.runs.config import STREAMS, LearnerConfig, RunConfig
from metadrift.runs.oracle import NoFeatures, OracleDetector

METHODS = registry.built_in("methods")
# gss and mir take many passes at every step.
SLOW_LAST = [
    pytest.param(name, marks=pytest.mark.slow) if name in ("gss", "mir") else name
    for name in METHODS
]


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("learner", ["protonet", "anil"])
def test_the_loss_of_what_arrives_falls(name, learner, build_method, batches):
    method = build_method(name, learner, lr=1e-2)
    losses = [method.step(tasks).loss for tasks in islice(batches(0), 60)]
    assert sum(losses[-15:]) < 0.85 * sum(losses[:15]), losses


@pytest.mark.slow
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
def test_wider_tasks_change_what_it_learns(name, build_method, batches):
    narrow, wide = build_method(name), build_method(name)
    wide.tasks_together = 2
    for one, other in zip(islice(batches(5), 4), islice(batches(5), 4), strict=True):
        assert wide.step(other).loss > narrow.step(one).loss
    assert not torch.equal(narrow.parameters()[0], wide.parameters()[0])


# Each option on, and the settings without it.
EVERYONES = {
    "fresh arrivals": ({"fresh": "all"}, {"fresh": "replay"}),
    "fresh replay": ({"fresh": "replay"}, {"fresh": "off"}),
    "shift": ({}, {"transform": TransformConfig(shift=0.0)}),
    "turn": ({}, {"transform": TransformConfig(turn=0.0)}),
    "batches": ({"replay": ReplayConfig(batches=2)}, {}),
    "dark": ({"fresh": "off", "replay": ReplayConfig(dark=0.5)}, {"fresh": "off"}),
    "dark beside shifts": (
        {"replay": ReplayConfig(dark=0.5), "transform": TransformConfig(turn=0.0)},
        {"transform": TransformConfig(turn=0.0)},
    ),
    "balance": ({"replay": ReplayConfig(balance=True)}, {}),
}
# Options of one method, which their help names first.
OF_ONE = {
    ("m2d3-pets", "sampler"): {"replay": ReplayConfig(sampler="uniform")},
    ("m2d3-pets", "weighted"): {"replay": ReplayConfig(weighted=False)},
    ("m2d3-pets", "refresh_every"): {"replay": ReplayConfig(refresh_every=3)},
    ("m2d3-pets", "refresh_batches"): {"replay": ReplayConfig(refresh_every=3, refresh_batches=1)},
    ("m2d3-pets", "mode"): {"memory": MemoryConfig(mode="paper")},
    ("m2d3-pets", "beta"): {"memory": MemoryConfig(beta=4.0)},
    ("m2d3-pets", "kappa"): {"memory": MemoryConfig(kappa=0.0, beta=4.0)},
    ("mir", "mir_candidates"): {"baseline": BaselineConfig(mir_candidates=2)},
    ("gss", "gss_compare"): {"baseline": BaselineConfig(gss_compare=1)},
    ("gss", "gss_gate none"): {"baseline": BaselineConfig(gss_gate="none")},
    ("gss", "gss_gate original"): {"baseline": BaselineConfig(gss_gate="original")},
    ("agem", "agem_project"): {"baseline": BaselineConfig(agem_project="gradient")},
    ("mer", "mer_alpha"): {"baseline": BaselineConfig(mer_alpha=0.2)},
    ("mer", "mer_beta"): {"baseline": BaselineConfig(mer_beta=0.5)},
}
WITHOUT = {
    "refresh_batches": {"replay": ReplayConfig(refresh_every=3)},
    "kappa": {"memory": MemoryConfig(beta=4.0)},
}
NO_REPLAY_TERM = ("sequential", "agem", "mer")
NO_DOMAINS = ("reservoir", "gss", "mir", "loss-aware")


@pytest.fixture
def weights_after(build_method, batches):
    """The weights after a short stream of three domains whose changes are known."""

    def train(name, **options):
        oracle = {"features": NoFeatures(), "detector": OracleDetector([10, 20])}
        method = build_method(name, capacity=8, lr=0.03, **oracle, **options)
        for seed, ground in enumerate((60, 190, 120)):
            for tasks in islice(batches(seed, ground), 10):
                method.step(tasks)
        return torch.cat([p.detach().flatten() for p in method.parameters()])

    return train


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_LAST)
@pytest.mark.parametrize("option", EVERYONES)
def test_an_option_of_all_methods_changes_what_is_learned_or_is_refused(
    name, option, weights_after
):
    on, off = EVERYONES[option]
    idle = name in NO_REPLAY_TERM and option.startswith(("dark", "balance"))
    if idle or (name in NO_DOMAINS and option == "balance"):
        with pytest.raises(UsageError, match=f"^{name} .*would do nothing: leave it out$"):
            weights_after(name, **on)
        return
    same = torch.equal(weights_after(name, **on), weights_after(name, **off))
    assert same is (name == "sequential" and option in ("fresh replay", "batches"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "option"), OF_ONE)
def test_an_option_of_one_method_changes_what_is_learned(name, option, weights_after):
    on = OF_ONE[name, option]
    assert not torch.equal(
        weights_after(name, **on), weights_after(name, **WITHOUT.get(option, {}))
    )


def test_every_method_has_the_same_fresh_tasks_by_default(build_method):
    made = {name: build_method(name).fresh_tasks for name in METHODS}
    assert {repr((fresh.fresh, fresh.transforms, fresh.seed)) for fresh in made.values()} == {
        repr(("all", [Turn(0.75), Shift(0.107)], 0))
    }
    for name in (*METHODS, *STREAMS):
        config = RunConfig(method=name)
        assert (config.fresh, config.transform) == ("all", TransformConfig(shift=0.107, turn=0.75))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("learner", ["protonet", "anil"])
def test_with_fresh_tasks_the_learner_never_trains_on_a_task_as_it_is_stored(
    name, learner, build_method, batches
):
    method, seen, arrived = build_method(name, learner), [], []
    plain = method.learner.forward
    method.learner.forward = lambda tasks: (seen.append(tasks.images.clone()), plain(tasks))[1]
    for tasks in islice(batches(7), 12):
        arrived.append(tasks.images.clone())
        method.step(tasks)
        assert torch.equal(tasks.images, arrived[-1])  # what arrived is not touched
    stored = {image.numpy().tobytes() for tasks in arrived for image in tasks}
    assert not any(task.numpy().tobytes() in stored for tasks in seen for task in tasks)
    if isinstance(method, ReplayingMethod):
        kept = method.memory.buffer.get(range(len(method.memory))).images
        assert all(task.numpy().tobytes() in stored for task in kept)


def test_dark_replay_is_refused_where_classes_are_turned(build_method):
    for fresh in ("all", "replay"):
        with pytest.raises(UsageError, match=r"add --transform\.turn 0 or --fresh off"):
            build_method("reservoir", replay=ReplayConfig(dark=0.1), fresh=fresh)


@pytest.mark.parametrize("name", [*(m for m in METHODS if m != "balanced-oracle"), "joint"])
def test_no_method_of_a_run_can_reach_the_truth(name, tiny_benchmark, tmp_path):
    settings = RunConfig(
        str(tiny_benchmark), ways=3, queries=2, method=name, learn=LearnerConfig(4)
    )
    parts = build(settings, tmp_path)
    for _ in range(5):
        parts.method.step(next(parts.stream))
    assert leaks(parts.method) == []


def test_the_way_to_the_truth_would_be_found(tiny_benchmark, tmp_path):
    settings = RunConfig(str(tiny_benchmark), ways=3, queries=2, learn=LearnerConfig(4))
    parts = build(settings, tmp_path)
    assert leaks(parts.method) == []
    parts.method.sampler.choose = lambda *given: parts.truth.changes
    assert leaks(parts.method)
