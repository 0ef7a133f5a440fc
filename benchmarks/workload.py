"""What the parts of `make bench` work on: packs of noise, and runs whose memory is full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from metadrift.data.pack import Pack, open_pack, write_pack
from metadrift.detection import Change
from metadrift.memory import Arrival
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.runs.build import Parts, build
from metadrift.runs.config import RunConfig


def noise_pack(folder: Path, size: int, classes: int, images: int, seed: int = 0) -> Pack:
    """Half of the classes to train on, half to test: what they show does not matter here."""
    rng = np.random.default_rng([seed, size])
    rows = (
        (
            f"class{c}",
            "test" if c % 2 else "train",
            rng.integers(0, 256, (images, size, size, 3), np.uint8),
        )
        for c in range(classes)
    )
    return open_pack(write_pack(folder, folder.name, rows, source="noise", licence="CC0"))


def noise_run(folder: Path, **settings: Any) -> Parts:
    """The parts of a run on an endless stream of noise, of the settings of a RunConfig."""
    config = RunConfig(**settings)
    home = folder / "noise"
    folder.mkdir(parents=True, exist_ok=True)
    if not home.exists():
        noise_pack(home, config.size, 2 * max(config.ways, 10), config.shots + config.queries)
    file = folder / "noise.toml"
    file.write_text('[[segments]]\ndomain = "noise"\nsteps = 100_000_000\npack = "noise"\n')
    return build(RunConfig(**settings, benchmark=str(file)), folder)


def fill(parts: Parts, clusters: int = 6) -> None:
    """A full memory of some latent domains and a detector that watches, without any training."""
    method = parts.method
    assert isinstance(method, M2D3PETS)
    config = method.detector.config  # type: ignore[attr-defined]
    # The detector has learned what the domain looks like, and both its windows are full.
    steps = max(method.memory.capacity, config.burn_in + 2 * config.window)
    for step in range(steps):
        tasks = next(parts.stream)
        method.memory.offer(Arrival(tasks, step * clusters // steps, importance=0.1))
        seen = method.features(tasks)
        method.detector.update(seen)
        method.domains.update(seen, None)
    for _ in range(clusters - 1):
        method.domains.update(seen, Change(steps, steps, 0.0, 0.0))
    # In a run the clusters appear one by one, and are not all measured in the same step.
    measured = [[method.memory.slots_of(label)[0], 0.01] for label in method.memory.counts()]
    method.observe(np.array(measured))
    assert method.memory.full
    assert len(method.memory.counts()) == clusters
