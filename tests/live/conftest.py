"""Small pictures of classes that a small learner can tell apart, and tiny trained runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metadrift.runs.config import LearnerConfig, RunConfig
from metadrift.runs.loop import start

SIDE = 12
Pictures = Callable[..., list[np.ndarray]]


@pytest.fixture(scope="session")
def pictures() -> Pictures:
    """pictures(c, n): n noisy uint8 [12, 12, 3] pictures of class c, the same each time."""

    def make(c: int, n: int, seed: int = 0) -> list[np.ndarray]:
        pattern = np.kron(
            np.random.default_rng([7, c]).normal(0, 60, (4, 4, 3)), np.ones((3, 3, 1))
        )
        rng = np.random.default_rng([8, c, seed])
        noisy = 120 + pattern + rng.normal(0, 12, (n, SIDE, SIDE, 3))
        return list(noisy.clip(0, 255).astype(np.uint8))

    return make


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory, tiny_benchmark: Path) -> Callable[..., Path]:
    """run_of(learner, ...): the folder of a tiny finished run, trained once a test session."""
    made: dict[tuple[str, str], Path] = {}

    def make(learner: str, normalisation: str = "batch") -> Path:
        key = learner, normalisation
        if key not in made:
            made[key] = tmp_path_factory.mktemp("runs") / "-".join(key)
            config = RunConfig(
                benchmark=str(tiny_benchmark),
                scale=0.4,
                lr=0.003,
                method="reservoir",
                learner=learner,
                ways=3,
                queries=3,
                test_tasks=2,
                stage_tasks=0,
                checkpoint_every=20,
                keep=3,
                device="cpu",
                learn=LearnerConfig(filters=8, normalisation=normalisation, first_order=True),
            )
            start(config, made[key], quiet=True)
        return made[key]

    return make


@pytest.fixture
def folders(tmp_path: Path, pictures: Pictures) -> tuple[Path, Path]:
    """Support and query folders of four classes, with 1 to 4 shots and 5 queries per class."""
    support, query = tmp_path / "support", tmp_path / "query"
    for c in range(4):
        for part, images in ((support, pictures(c, c + 1)), (query, pictures(c, 5, seed=1))):
            home = part / f"class {c}"
            home.mkdir(parents=True)
            for n, image in enumerate(images):
                Image.fromarray(image).save(home / f"{n}.png")
    return support, query
