import numpy as np
import pytest
import torch

from metadrift.detection import DetectionConfig, make_detector, make_features
from metadrift.learners import make_learner
from metadrift.memory import Buffer
from metadrift.methods import make_method
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=3, shots=1, queries=2)


@pytest.fixture
def batches():
    """Endless batches of 2 tasks; each task has its own three random patterns, plus noise."""

    def make(seed, ground=100):
        rng = np.random.default_rng(seed)
        while True:
            patterns = rng.normal(ground, 50, (2, 3, 1, 1, 12, 12))
            images = patterns + rng.normal(0, 15, (2, 3, 3, 1, 12, 12))
            images = images.clip(0, 255).astype(np.uint8)
            block = np.concatenate(
                [
                    images[:, :, :1].reshape(2, 3, 1, 12, 12),
                    images[:, :, 1:].reshape(2, 6, 1, 12, 12),
                ],
                axis=1,
            )
            yield TaskBatch(torch.from_numpy(block), GEOMETRY)

    return make


@pytest.fixture
def build():
    def make(name, learner="protonet", capacity=6, lr=1e-2, **options):
        torch.set_num_threads(1)
        net = make_learner(learner, image_size=12, ways=3, generator=0, filters=8)
        buffer = Buffer(capacity, 2, GEOMETRY, 1, 12)
        settings = DetectionConfig().scaled(0.05)
        return make_method(
            name,
            net,
            torch.optim.Adam(net.parameters(), lr=lr),
            seed=0,
            buffer=buffer,
            features=make_features(settings, 1),
            detector=make_detector(settings),
            **options,
        )

    return make
