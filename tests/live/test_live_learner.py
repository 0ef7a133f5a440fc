"""A learner in a live program: any stream, any method, saved and loaded at any time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import metadrift
from metadrift import ContinualMetaLearner, TaskBatch, TaskGeometry
from metadrift.detection import DetectionConfig
from metadrift.errors import MetadriftError, UsageError
from metadrift.learners import MetaLearner, make_learner
from metadrift.methods.base import NonFiniteError
from metadrift.runs.config import LearnerConfig, ReplayConfig, RunConfig
from metadrift.streams.manifest import ManifestStream

GEOMETRY = TaskGeometry(ways=3, shots=1, queries=2)
SMALL = RunConfig(
    learn=LearnerConfig(filters=4, inner_steps=2, first_order=True),
    detection=DetectionConfig(window=5, burn_in=15),
    replay=ReplayConfig(refresh_every=5),
)
METHODS = ["sequential", "reservoir", "gss", "agem", "mir", "mer", "m2d3-pets", "loss-aware"]


def arriving(steps, seed=0, size=12):
    """A generator of tasks whose brightness jumps in the middle."""
    rng = np.random.default_rng(seed)
    for step in range(steps):
        ground = 60 if step < steps // 2 else 190
        classes = rng.normal(ground, 30, (2, 3, 1, 4, 4))
        images = classes.repeat(3, 2) + rng.normal(0, 8, (2, 3, 3, 4, 4))
        images = np.kron(images, np.ones((size // 4, size // 4))).clip(0, 255).astype(np.uint8)
        support, query = images[:, :, :1], images[:, :, 1:]
        flat = np.concatenate([part.reshape(2, -1, size, size) for part in (support, query)], 1)
        yield TaskBatch(torch.from_numpy(flat)[:, :, None], GEOMETRY)


def made(method="m2d3-pets", learner="protonet", **more):
    settings = {"image_size": 12, "channels": 1, "tasks_per_step": 2, "memory": 6, "device": "cpu"}
    settings |= {"config": SMALL} | more
    return ContinualMetaLearner(method, learner, geometry=GEOMETRY, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_any_method_saves_and_goes_on_to_the_same_numbers(method: str, tmp_path: Path) -> None:
    whole = made(method)
    records = [whole.observe(tasks) for tasks in arriving(24)]
    first = made(method)
    stream = arriving(24)
    for _ in range(13):
        first.observe(next(stream))
    first.save(tmp_path / "saved")
    second = ContinualMetaLearner.load(tmp_path / "saved", device="cpu")
    assert second.steps == 13
    rest = [second.observe(tasks) for tasks in stream]
    # nan is not equal to itself, so compare as text
    assert [repr(record) for record in rest] == [repr(record) for record in records[13:]]
    for mine, theirs in zip(whole.learner.parameters(), second.learner.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["protonet", "anil", "maml", "ridge"])
def test_any_learner_learns_from_a_generator(learner: str) -> None:
    model = made(learner=learner, lr=0.01)
    losses = [model.observe(tasks).loss for tasks in arriving(80)]
    assert np.mean(losses[-20:]) < np.mean(losses[:20])
    right = [
        (model.predict(t) == t.query_labels).float().mean().item() for t in arriving(30, seed=5)
    ]
    assert np.mean(right) > 0.5  # guessing gives a third


def test_a_change_is_noticed_in_a_live_stream() -> None:
    model = made()
    records = [model.observe(tasks) for tasks in arriving(80)]
    changes = [record.change for record in records if record.change]
    assert len(changes) == 1
    assert abs(changes[0].started_at - 40) <= 2
    assert records[-1].latent_domain == 1


def test_a_manifest_of_tasks_is_a_stream(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for t in range(6):
        task = {"support": {}, "query": {}}
        for c in range(3):
            for part, count in (("support", 1), ("query", 2)):
                files = [f"{t}-{c}-{part}-{n}.png" for n in range(count)]
                for file in files:
                    pixels = rng.integers(0, 256, (20, 14, 3), dtype=np.uint8)
                    Image.fromarray(pixels).save(tmp_path / file)
                task[part][f"class {c}"] = files
        lines.append(json.dumps(task))
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    stream = ManifestStream(tmp_path / "tasks.jsonl", GEOMETRY, image_size=12, channels=1)
    model = made("reservoir")
    records = [model.observe(tasks) for tasks in stream]
    assert model.steps == len(records) == 3
    assert all(record.admitted for record in records)


class Own(nn.Module):
    """A backbone as anybody writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).flatten(1)


@pytest.mark.parametrize("learner", ["protonet", "anil"])
def test_a_backbone_and_an_optimiser_of_ones_own(learner: str, tmp_path: Path) -> None:
    own = {"optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9)}
    torch.manual_seed(0)
    model = made("reservoir", learner, backbone=Own(), **own)
    stream = arriving(12)
    for _ in range(6):
        model.observe(next(stream))
    assert isinstance(model.optimizer, torch.optim.SGD)
    model.save(tmp_path / "mine")
    again = ContinualMetaLearner.load(tmp_path / "mine", backbone=Own(), device="cpu", **own)
    for tasks in stream:
        assert model.observe(tasks).loss == again.observe(tasks).loss
    with pytest.raises(MetadriftError, match="another learner, backbone or optimiser"):
        ContinualMetaLearner.load(tmp_path / "mine", device="cpu")


def test_a_learner_of_ones_own(tmp_path: Path) -> None:
    def mine():
        return make_learner("ridge", image_size=12, ways=3, filters=4, generator=1)

    model = made("reservoir", mine())
    model.observe(next(arriving(1)))
    model.save(tmp_path / "mine")
    again = ContinualMetaLearner.load(tmp_path / "mine", learner=mine(), device="cpu")
    tasks = next(arriving(1, seed=3))
    assert torch.equal(model.predict(tasks), again.predict(tasks))
    with pytest.raises(UsageError, match="has its backbone already"):
        made("reservoir", mine(), backbone=Own())


def test_it_names_pictures_between_two_steps() -> None:
    model = made("reservoir")
    for tasks in arriving(10):
        model.observe(tasks)
    support = {"dark": [np.full((30, 20), 30, np.uint8)], "light": [np.full((9, 9), 220, np.uint8)]}
    found = model.classify(support, [np.full((12, 12, 3), 200, np.uint8)])
    assert found.names == ["light"]


def test_what_was_saved_live_can_be_classified_with(tmp_path: Path) -> None:
    model = made("reservoir")
    model.observe(next(arriving(1)))
    loaded = metadrift.load(model.save(tmp_path / "mine"), device="cpu")
    support = {"dark": [np.full((9, 9), 30, np.uint8)], "light": [np.full((9, 9), 220, np.uint8)]}
    query = [np.full((9, 9), 100, np.uint8)]
    found = loaded.classify(support, query).probabilities
    assert np.array_equal(found, model.classify(support, query).probabilities)


def test_saving_again_replaces_what_was_saved(tmp_path: Path) -> None:
    model = made("reservoir")
    stream = arriving(4)
    for _ in range(2):
        model.observe(next(stream))
        model.save(tmp_path / "saved")
    assert [path.name for path in (tmp_path / "saved").iterdir()] == ["step-2"]
    model.save(tmp_path / "saved")
    assert ContinualMetaLearner.load(tmp_path / "saved").steps == 2


def test_nothing_saved_is_pickled(tmp_path: Path) -> None:
    made("reservoir").save(tmp_path / "saved")
    names = sorted(path.name for path in (tmp_path / "saved" / "step-0").iterdir())
    assert names == ["state.json", "tensors.safetensors"]


def test_what_was_not_saved_here_is_refused(tmp_path: Path, run_of) -> None:
    with pytest.raises(MetadriftError, match="no saved learner"):
        ContinualMetaLearner.load(tmp_path)
    with pytest.raises(MetadriftError, match="not saved by a ContinualMetaLearner"):
        ContinualMetaLearner.load(run_of("protonet") / "checkpoints")


def test_a_batch_of_another_shape_is_named_and_not_learned() -> None:
    model = made("reservoir")
    with pytest.raises(MetadriftError, match="step 0 brought examples"):
        model.observe(next(arriving(1, size=16)))
    with pytest.raises(MetadriftError, match="step 0 brought examples"):
        model.observe(next(arriving(1))[:1])
    assert model.steps == 0


def test_a_loss_that_is_not_finite_leaves_the_weights_alone() -> None:
    model = made("reservoir")
    with torch.no_grad():
        next(iter(model.learner.parameters())).fill_(float("nan"))
    before = [p.clone() for p in model.learner.parameters()]
    with pytest.raises(NonFiniteError):
        model.observe(next(arriving(1)))
    for was, now in zip(before, model.learner.parameters(), strict=True):
        assert torch.equal(was.nan_to_num(), now.nan_to_num())


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "balanced-oracle"},
        {"channels": 2},
        {"config": RunConfig(labels="oracle")},
        {"learner": MetaLearner},
    ],
)
def test_what_cannot_work_live_is_refused(settings) -> None:
    with pytest.raises(UsageError):
        made(**settings)


def test_the_front_door_is_quick_and_complete() -> None:
    assert metadrift.ContinualMetaLearner is ContinualMetaLearner
    assert {"load", "ContinualMetaLearner"} <= set(metadrift.__all__)


@pytest.mark.parametrize("custom", [False, True])
def test_a_live_learner_in_bf16_goes_on_in_bf16(custom: bool, tmp_path: Path) -> None:
    def own():
        return make_learner("ridge", image_size=12, ways=3, filters=4, generator=0)

    first = made(learner=own() if custom else "protonet", precision="bf16")
    stream = arriving(8)
    for _ in range(4):
        first.observe(next(stream))
    first.save(tmp_path / "saved")
    learner = {"learner": own()} if custom else {}
    second = ContinualMetaLearner.load(tmp_path / "saved", device="cpu", **learner)
    assert (second.learner.precision, second.config.precision) == ("bf16", "bf16")
    for tasks in stream:
        assert repr(first.observe(tasks)) == repr(second.observe(tasks))
    assert made().learner.precision == "float32"
    assert made(precision="auto").learner.precision in ("float32", "bf16")
