"""What the detectors see of a task batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from metadrift.detection import DetectionConfig, FrozenFeatures, NetworkFeatures, make_features
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures
from metadrift.tasks import TaskBatch, TaskGeometry


def tasks(seed: int = 0, size: int = 28, channels: int = 3, queries: int = 2) -> TaskBatch:
    generator = torch.Generator().manual_seed(seed)
    geometry = TaskGeometry(5, 2, queries)
    shape = (2, geometry.images_per_task, channels, size, size)
    return TaskBatch(torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator), geometry)


@pytest.mark.parametrize("size", [28, 32, 84])
@pytest.mark.parametrize("channels", [1, 3])
def test_frozen_features_are_one_float64_vector(size: int, channels: int) -> None:
    vector = FrozenFeatures(channels, dim=48)(tasks(size=size, channels=channels))
    assert vector.shape == (48,)
    assert vector.dtype == np.float64
    assert np.isfinite(vector).all()


def test_frozen_features_follow_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    a = FrozenFeatures(3, seed=4)(tasks())
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert np.array_equal(a, FrozenFeatures(3, seed=4)(tasks()))
    assert torch.equal(before, torch.get_rng_state())
    assert not np.array_equal(a, FrozenFeatures(3, seed=5)(tasks()))


def test_the_spread_is_the_mean_of_each_images_own_spread() -> None:
    images = torch.full((1, 4, 1, 28, 28), 100, dtype=torch.uint8)
    images[0, 0, :, ::2] = 200  # one striped support image beside a flat one
    batch = TaskBatch(images, TaskGeometry(ways=2, shots=1, queries=1))
    mean, spread = FrozenFeatures(1)(batch)[-4:-2]
    assert mean == pytest.approx(125 / 255)
    assert spread == pytest.approx(50 / 255 / 2)


def test_frozen_features_do_not_look_at_the_query() -> None:
    batch = tasks()
    images = batch.images.clone()
    images[:, batch.support.shape[1] :] = 0
    features = FrozenFeatures(3)
    assert np.array_equal(features(batch), features(TaskBatch(images, batch.geometry)))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_last_frozen_features_are_plain_statistics_of_the_support(channels: int) -> None:
    batch = tasks(channels=channels)
    x = batch.support.flatten(0, 1).numpy() / 255
    steps = [np.abs(np.diff(x, axis=axis)).mean((0, 2, 3)) for axis in (3, 2, 1)]
    expected = np.concatenate([x.mean((0, 2, 3)), x.std((2, 3)).mean(0), *steps])
    assert FrozenFeatures(channels)(batch)[-len(expected) :] == pytest.approx(expected, rel=1e-5)


def test_network_features_average_the_embedding_and_cut_the_graph() -> None:
    embedding = torch.randn(2, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    vector = NetworkFeatures(dim=64)(tasks(), embedding)
    assert vector == pytest.approx(embedding.detach().double().mean(0).numpy())
    assert NetworkFeatures(dim=64)(tasks(), torch.ones(2, 500)).shape == (64,)


def test_both_features_stand_side_by_side() -> None:
    both = make_features(DetectionConfig(features="both"), Pictures(12))
    embedding = torch.ones(2, 32)
    vector = both(tasks(), embedding)
    assert np.array_equal(vector[:64], FrozenFeatures(3)(tasks()))
    assert vector[64:].tolist() == [1.0] * 32


def test_the_papers_z_continues_from_its_state() -> None:
    config = DetectionConfig(mode="paper")
    embeddings = torch.randn(12, 2, 8, generator=torch.Generator().manual_seed(0))
    whole, first, second = (make_features(config, Pictures(12)) for _ in range(3))
    expected = [whole(tasks(), e) for e in embeddings]
    assert expected[0].shape == (5,)
    for e in embeddings[:7]:
        first(tasks(), e)
    second.load_state_dict(first.state_dict())
    assert np.array_equal([second(tasks(), e) for e in embeddings[7:]], expected[7:])


def test_what_is_missing_is_named() -> None:
    with pytest.raises(MetadriftError, match="need the learner's embedding"):
        NetworkFeatures()(tasks(), None)
    with pytest.raises(MetadriftError, match="made for 1 channels; the tasks have 3"):
        FrozenFeatures(1)(tasks())
