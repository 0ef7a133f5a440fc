from __future__ import annotations

import numpy as np
import pytest
import torch

from metadrift import registry
from metadrift.data.pack import open_pack, write_pack
from metadrift.data.sampler import TaskSampler
from metadrift.errors import MetadriftError, UsageError
from metadrift.evaluation.protocol import DomainAccuracy, evaluate, evaluation_tasks, overall
from metadrift.learners import make_learner
from metadrift.tasks import TaskGeometry

GEOMETRY = TaskGeometry(3, 1, 2)


@pytest.fixture
def samplers(tmp_path):
    """Two domains: one whose classes differ in brightness, one of pure noise."""
    rng = np.random.default_rng(0)

    def classes(noise):
        for c in range(8):
            split = "test" if c < 4 else "train"
            base = rng.integers(0, 256, (8, 8, 1)) * (not noise)
            images = base + rng.integers(0, 256 if noise else 8, (6, 8, 8, 1))
            yield f"c{c}", split, images.clip(0, 255).astype(np.uint8)

    found = {}
    for name in ("plain", "noise"):
        path = write_pack(tmp_path / name, name, classes(name == "noise"), source="", licence="")
        found[name] = TaskSampler(open_pack(path), "test", GEOMETRY)
    return found


def _learner(name="protonet", normalisation="batch"):
    return make_learner(
        name, image_size=8, ways=3, filters=4, generator=0, normalisation=normalisation
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.built_in("learners"))
def test_every_learner_tells_signal_from_noise_and_comes_out_unchanged(name, samplers):
    learner = _learner(name, "running")
    optimiser = torch.optim.Adam(learner.parameters(), lr=0.01)
    rng = np.random.default_rng(0)
    for _ in range(20):
        optimiser.zero_grad()
        learner(samplers["plain"].draw(4, rng)).loss.mean().backward()
        optimiser.step()
    optimiser.zero_grad()
    before = {k: v.clone() for k, v in learner.state_dict().items()}
    told = []
    found = evaluate(learner, samplers, tasks=30, batch=8, progress=told.append)
    assert found["plain"].mean > found["noise"].mean + 0.2
    assert abs(found["noise"].mean - 1 / 3) < 0.2
    assert learner.training
    assert all(torch.equal(v, before[k]) for k, v in learner.state_dict().items())
    assert all(p.grad is None for p in learner.parameters())
    assert told == [8, 8, 8, 6] * 2


def test_the_tasks_are_fixed_by_seed_and_domain(samplers):
    sampler = samplers["plain"]
    rows = evaluation_tasks(sampler, "plain", tasks=20, seed=3)
    assert np.array_equal(rows, evaluation_tasks(sampler, "plain", tasks=20, seed=3))
    assert not np.array_equal(rows, evaluation_tasks(sampler, "plain", tasks=20, seed=4))
    assert not np.array_equal(rows, evaluation_tasks(sampler, "other", tasks=20, seed=3))


@pytest.mark.parametrize("few", [1, 49, 50, 51, 100])
def test_fewer_tasks_are_the_first_of_more(few, samplers):
    many = evaluation_tasks(samplers["plain"], "plain", tasks=130)
    assert np.array_equal(evaluation_tasks(samplers["plain"], "plain", tasks=few), many[:few])
    assert many.shape == (130, GEOMETRY.images_per_task)
    assert len(np.unique(many, axis=0)) > 100  # blocks of tasks do not repeat each other


def test_only_test_classes_are_drawn(samplers):
    rows = evaluation_tasks(samplers["plain"], "plain", tasks=50)
    assert rows.max() < samplers["plain"].pack.class_offsets[4]


def test_accuracy_does_not_depend_on_the_size_of_the_passes(samplers):
    learner = _learner()
    one = evaluate(learner, samplers, tasks=12, batch=1)
    many = evaluate(learner, samplers, tasks=12)
    for name in samplers:
        assert np.array_equal(one[name].per_task, many[name].per_task)
        assert many[name].tasks == 12


def test_a_domain_is_left_when_its_interval_is_narrow_enough(samplers):
    learner = _learner()
    whole = evaluate(learner, samplers, tasks=400)
    width = 1.2 * max(accuracy.ci95 for accuracy in whole.values())
    told = []
    short = evaluate(learner, samplers, tasks=400, half_width=width, progress=told.append)
    for name in samplers:
        tasks = short[name].tasks
        assert tasks % 50 == 0
        assert 50 <= tasks < 400
        assert short[name].ci95 <= width
        assert np.array_equal(short[name].per_task, whole[name].per_task[:tasks])
    assert sum(told) == sum(accuracy.tasks for accuracy in short.values())


def test_a_width_that_is_not_reached_takes_all_tasks(samplers):
    found = evaluate(_learner(), samplers, tasks=70, half_width=1e-6)
    assert found["noise"].tasks == 70


def test_the_overall_mean_counts_every_domain_the_same(samplers):
    found = evaluate(_learner(), samplers, tasks=25)
    mean, ci95 = overall(found)
    plain, noise = found["plain"], found["noise"]
    assert mean == pytest.approx((plain.mean + noise.mean) / 2)
    assert ci95 == pytest.approx(np.hypot(plain.ci95, noise.ci95) / 2)
    expected = 1.96 * noise.per_task.std(ddof=1) / 5
    assert noise.ci95 == pytest.approx(expected)


def test_no_tasks_is_refused(samplers):
    with pytest.raises(UsageError, match="at least one task"):
        evaluate(_learner(), samplers, tasks=0)


def test_a_mean_over_no_domain_is_refused():
    with pytest.raises(MetadriftError, match="no domain to average"):
        overall({})


def test_one_task_has_a_mean_and_no_interval(samplers):
    found = evaluate(_learner(), samplers, tasks=1)
    assert found["plain"].tasks == 1
    assert np.isnan(found["plain"].ci95)
    assert np.isnan(overall(found)[1])


def test_two_tasks_have_an_interval():
    found = DomainAccuracy.of(np.array([0.4, 0.6]))
    assert (found.mean, found.tasks) == (0.5, 2)
    assert found.ci95 == pytest.approx(1.96 * 0.1)  # a standard error of .1


def test_a_learner_whose_weights_have_gone_wrong_is_said_to_be(samplers):
    learner = _learner()
    with torch.no_grad():
        next(learner.parameters()).fill_(float("nan"))
    with pytest.raises(MetadriftError, match="answers on 'plain' are NaN or infinite"):
        evaluate(learner, samplers, tasks=2)


def test_one_wrong_answer_is_enough(samplers):
    learner = _learner()
    plain = learner.predict

    def predict(*words, **named):
        logits = plain(*words, **named)
        logits.flatten()[0] = float("nan")
        return logits

    learner.predict = predict
    with pytest.raises(MetadriftError, match="answers on 'plain' are NaN or infinite"):
        evaluate(learner, samplers, tasks=2)


def test_a_learner_in_evaluation_mode_stays_in_it(samplers):
    learner = _learner().eval()
    evaluate(learner, samplers, tasks=2)
    assert not learner.training
