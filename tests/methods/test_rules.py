"""The decisive rule of each method, worked out by hand."""

import math
from itertools import islice

import numpy as np
import pytest
import torch

from metadrift.detection import Change, DetectionConfig, make_features
from metadrift.errors import UsageError
from metadrift.examples import Pictures
from metadrift.learners import Outcome
from metadrift.memory import Arrival
from metadrift.memory.reservoir import ReservoirMemory
from metadrift.methods import BaselineConfig, MemoryConfig, ReplayConfig
from metadrift.methods.agem import project_away
from metadrift.methods.base import NonFiniteError, mean_squares
from metadrift.methods.m2d3_pets import measurement
from metadrift.replay import Replay
from metadrift.runs.oracle import OracleDetector


def flat(method):
    return torch.cat([p.detach().flatten() for p in method.parameters()])


class Mine(ReservoirMemory):
    pass


def test_a_memory_that_is_handed_in_is_used(build_method):
    assert type(build_method("reservoir", memory_class=Mine).memory) is Mine
    with pytest.raises(UsageError, match="M2D3PETS needs a memory that is a M2D3Memory, not Mine"):
        build_method("m2d3-pets", memory_class=Mine)


def test_tasks_are_one_batch_unless_it_is_said_how_many():
    norms = torch.tensor([1.0, 2.0, 3.0])
    outcome = Outcome(norms, torch.zeros(3, 4, 2), torch.zeros(3, 5), norms)
    assert mean_squares(outcome).tolist() == pytest.approx([14 / 3])
    assert mean_squares(outcome, 3).tolist() == [1.0, 4.0, 9.0]


def test_a_method_with_a_memory_needs_a_buffer(build_method):
    with pytest.raises(UsageError, match="reservoir keeps a memory: pass buffer="):
        build_method("reservoir", buffer=None)


def test_agem_leaves_a_gradient_that_agrees_and_projects_one_that_does_not():
    reference = [torch.tensor([2.0, 0.0]), torch.tensor([0.0])]
    agrees = [torch.tensor([1.0, 5.0]), torch.tensor([3.0])]
    kept = project_away(agrees, reference, sign=1)
    assert all(torch.equal(a, b) for a, b in zip(kept, agrees, strict=True))
    against = [torch.tensor([-3.0, 5.0]), torch.tensor([3.0])]
    projected = project_away(against, reference, sign=1)
    assert [part.tolist() for part in projected] == [[0.0, 5.0], [3.0]]


def test_agem_never_applies_an_update_that_climbs_the_memory_loss(build_method, batches):
    method, stream = build_method("agem", lr=0.05), batches(0, ground=60)
    for tasks in islice(stream, 10):
        method.step(tasks)
    limited = []

    def watch(before, reference, plain=method.limit_update):
        moved = flat(method) - torch.cat([b.flatten() for b in before])
        plain(before, reference)
        r = torch.cat([part.flatten() for part in reference])
        after = flat(method) - torch.cat([b.flatten() for b in before])
        limited.append((float(moved @ r), float(after @ r), float(r.norm() * after.norm())))

    method.limit_update = watch
    for tasks in islice(batches(1, ground=180), 20):
        method.step(tasks)
    assert all(after <= 1e-4 * scale for _, after, scale in limited)
    assert any(proposed > 0 for proposed, _, _ in limited)


def test_mir_replays_the_candidates_whose_loss_rises_most_and_takes_its_virtual_step_back(
    build_method, batches
):
    method, stream = build_method("mir", replay=ReplayConfig(batches=2), fresh="off"), batches(0)
    for tasks in islice(stream, 10):
        method.step(tasks)
    tasks, before = next(stream), flat(method)
    moments = {
        key: value.clone() for key, value in method.optimizer.state[method.parameters()[0]].items()
    }
    chosen = method.interfered(tasks)
    assert torch.equal(flat(method), before)
    after = method.optimizer.state[method.parameters()[0]]
    assert all(torch.equal(value, after[key]) for key, value in moments.items())
    slots = list(range(len(method.memory)))
    stored = method.replays(slots)
    rest = method.losses(stored)
    undo = method.virtual_step(tasks)
    rise = method.losses(stored) - rest
    undo()
    expected = torch.argsort(rise, descending=True)[:2].tolist()
    assert [replay.slot for replay in chosen] == expected


def test_mer_steps_through_the_batches_and_goes_part_of_the_way(build_method, batches):
    method = build_method("mer", baseline=BaselineConfig(mer_alpha=0.1, mer_beta=0.25), fresh="off")
    tasks = next(batches(0))
    start = flat(method)
    loss = method.learner(tasks).loss.mean()
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, method.parameters())])
    method.step(tasks)  # nothing is stored yet: one batch, one plain step
    expected = start - 0.25 * 0.1 * gradient
    assert torch.allclose(flat(method), expected, atol=1e-7)


def test_gss_compares_gradients_at_the_present_weights(build_method, batches):
    method, stream = build_method("gss", capacity=6, fresh="off"), batches(0)
    for tasks in islice(stream, 9):
        method.step(tasks)
    arriving = next(stream)
    stored = [method.memory.buffer.get([slot]) for slot in range(6)]
    gradients = [
        torch.cat([part.flatten() for part in method.gradients(method.learner(t).loss.mean())])
        for t in (arriving, *stored)
    ]
    cosines = [float(torch.cosine_similarity(gradients[0], g, dim=0)) for g in gradients[1:]]
    offered = []
    plain = method.memory.offer
    method.memory.offer = lambda arrival: (offered.append(arrival), plain(arrival))[1]
    method.step(arriving)  # it compares with up to 10: here with all six
    assert offered[0].similarity == pytest.approx(max(cosines), abs=1e-5)


def test_replayed_tasks_enter_the_objective_with_their_weight(build_method, batches):
    method, stream = build_method("reservoir"), batches(0)
    a, b = next(stream), next(stream)
    alone, other = method.learner(a).loss.mean(), method.learner(b).loss.mean()
    learned = method.forward(a, [Replay(b, weight=2.5, slot=0)])
    assert (learned.objective).item() == pytest.approx((alone + 2.5 * other).item(), rel=1e-5)


@pytest.mark.parametrize("what", ["the loss", "a gradient"])
def test_what_is_not_finite_is_named_and_leaves_the_weights_alone(what, build_method, batches):
    method = build_method("reservoir")
    first = next(iter(method.parameters()))
    if what == "a gradient":
        first.register_hook(lambda gradient: gradient * math.nan)
    else:
        first.data.fill_(math.nan)
    before = flat(method)
    with pytest.raises(NonFiniteError, match=what):
        method.step(next(batches(0)))
    assert torch.equal(before.nan_to_num(9), flat(method).nan_to_num(9))


def test_dark_replay_holds_the_learner_to_stored_logits(batches, build_method):
    dark = {"replay": ReplayConfig(dark=1.0), "fresh": "off"}
    method, b = build_method("reservoir", **dark), next(batches(0))
    outcome = method.learner(b)
    method.memory.offer(Arrival(b, logits=outcome.logits.detach()))
    replay = Replay(b, 1.0, 0)
    held = (method.replay_term(outcome, [replay])).item()
    assert held == pytest.approx((outcome.loss.mean()).item(), rel=1e-3)
    moved = type(outcome)(outcome.loss, outcome.logits * 3, outcome.embedding, outcome.importance)
    assert (method.replay_term(moved, [replay])).item() > held + 1e-3


def test_a_detected_change_opens_a_new_latent_domain_and_relabels_from_its_start(
    build_method, batches
):
    method, stream = build_method("m2d3-pets", capacity=50), batches(0)

    class At:
        statistic, threshold, step = 2.0, 1.0, -1

        def update(self, embedding):
            self.step += 1
            return Change(self.step, 6, 2.0, 1.0) if self.step == 9 else None

    method.detector = At()
    records = [method.step(tasks) for tasks in islice(stream, 15)]
    assert [record.latent_domain for record in records] == [0] * 9 + [1] * 6
    labels = method.memory.label[:15].tolist()
    assert labels == [0] * 6 + [1] * 9
    assert records[9].change == Change(9, 6, 2.0, 1.0)
    assert math.isfinite(records[-1].extra["variance_ratio"])


def test_without_pets_the_draws_are_uniform_and_of_weight_one(build_method, batches):
    method = build_method("m2d3-pets", replay=ReplayConfig(sampler="uniform"))
    for tasks in islice(batches(0), 8):
        method.step(tasks)
    assert method.memory.relabel(4, 1) > 0
    for label in (0, 1):  # one cluster is far harder: PETS would prefer it
        method.sampler.observe(label, 100.0**label)
    drawn = [method.draw()[0] for _ in range(400)]
    assert all(replay.weight == 1.0 for replay in drawn)
    counts = np.bincount([replay.slot for replay in drawn], minlength=6)
    assert counts.min() > 35  # of 67 expected, with a standard deviation of 7.5
    assert counts.max() < 99


def test_every_replayed_batch_is_measured_by_the_step_that_trains_on_it(build_method, batches):
    method = build_method("m2d3-pets", replay=ReplayConfig(batches=2))
    stream, seen = batches(0), []
    method.step(next(stream))
    method.sampler.stale = lambda memory, rng: []  # no refresh beside it
    method.memory.observe = lambda label, importance: seen.append(importance)
    for n in range(1, 6):
        method.step(next(stream))
        assert len(seen) == 2 * n
    assert all(importance > 0 for importance in seen)


@pytest.mark.parametrize("fresh", ["off", "all"])
def test_arrival_replay_and_refresh_measure_the_same_importance(fresh, build_method, batches):
    """The same batch in the same form has one importance, whichever way it is measured."""
    method = build_method("m2d3-pets", fresh=fresh)
    tasks = next(batches(0))
    method.memory.offer(Arrival(tasks))

    def restart():
        method.fresh_tasks.load_state_dict({"uses": 0})

    restart()
    arriving = method.read(method.forward(method.fresh(tasks)), torch.zeros(()))
    restart()
    (replay,) = method.replays([0])
    replayed = method.read(method.forward(next(batches(1)), [replay]), torch.zeros(()))
    by_replay = []
    method.memory.observe = lambda label, importance: by_replay.append(importance)
    method.observe(measurement([replay], replayed.squares))
    restart()
    method.sampler.stale = lambda memory, rng: [0]
    method.measure_stale()
    each = arriving.arriving.importance
    assert each[0] != each[1]
    assert arriving.importance == pytest.approx(float(each.square().mean().sqrt()), rel=1e-6)
    assert by_replay == pytest.approx([arriving.importance] * 2, rel=1e-5)


def test_in_paper_mode_the_importance_of_a_cluster_is_that_of_pets(build_method, batches):
    method = build_method("m2d3-pets", capacity=50, memory=MemoryConfig(mode="paper"))
    method.detector = OracleDetector([8])
    for tasks in islice(batches(0), 20):
        method.step(tasks)
    labels = list(method.memory.counts())
    known = method.memory.importance.of(labels).tolist()
    assert known == method.sampler.importance.of(labels).tolist()
    assert len(set(known)) == len(labels) == 2


def test_features_of_the_learner_see_tasks_as_they_arrived(build_method, batches):
    settings = DetectionConfig(features="network").scaled(0.05)
    method, seen = build_method("m2d3-pets", features=make_features(settings, Pictures(12, 1))), []
    plain = method.features
    tasks = next(batches(0))
    with torch.no_grad():
        expected = method.learner(tasks).embedding

    class Watched:
        uses_embedding = True

        def __call__(self, tasks, embedding):
            seen.append((tasks, embedding))
            return plain(tasks, embedding)

    method.features = Watched()
    method.move = lambda norm: None  # the weights stay, so that embeddings can be compared
    method.step(tasks)
    assert seen[0][0] is tasks
    assert torch.allclose(seen[0][1], expected, atol=1e-6)


def test_the_replay_term_grows_with_the_domains_before_the_current_one(build_method, batches):
    method, stream = build_method("m2d3-pets", replay=ReplayConfig(balance=True)), batches(0)
    replayed = method.learner(next(stream))
    replay = Replay(next(stream), weight=1.0, slot=0)
    for label, factor in enumerate((1, 1, 2, 3)):
        method.memory.offer(Arrival(next(stream), label))
        term = method.replay_term(replayed, [replay]).item()
        assert term == pytest.approx(factor * replayed.loss.mean().item(), rel=1e-6)
