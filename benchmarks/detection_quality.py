"""How many changes of domain are found, how late, and how often an alarm is false.

    python benchmarks/detection_quality.py --data FOLDER_OF_PACKS

Streams of few-shot tasks run through every pack of the folder in random orders, with the paper's
lengths times a scale. A change counts as found by the first report between it and the next
change; every other report is a false alarm. Delays are in steps, from the true change to the
report and to the estimated start.
"""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro
from torch import Tensor
from torch.nn import functional as F

from metadrift.data.pack import open_pack
from metadrift.data.sampler import TaskSampler
from metadrift.detection import Change, DetectionConfig, FrozenFeatures, Projection, make_detector
from metadrift.examples import Pictures
from metadrift.learners import make_learner
from metadrift.tasks import TaskBatch, TaskGeometry

LENGTHS = (5000, 2000, 6000, 2000, 2000, 24000)
Variant = Literal["plain", "inverted", "blurred", "turned", "swapped", "pale"]
VARIANTS: tuple[Variant, ...] = ("plain", "inverted", "blurred", "turned", "swapped", "pale")

PAPER = DetectionConfig(mode="paper")
RULES: dict[str, tuple[DetectionConfig, bool]] = {  # settings, and whether it watches z
    "default": (DetectionConfig(), False),
    "default, delta 8": (DetectionConfig(delta=8.0), False),
    "fourier": (DetectionConfig(mode="fourier"), False),
    "paper, as printed": (PAPER, True),
    "paper, sqrt": (replace(PAPER, sqrt=True), True),
    "paper, sqrt, refractory 3B": (replace(PAPER, sqrt=True, refractory=300), True),
    "paper without z": (PAPER, False),
    "paper without z, sqrt, refractory 3B": (
        replace(PAPER, sqrt=True, refractory=300),
        False,
    ),
}


@dataclass
class Score:
    """Reports against the truth, summed over streams."""

    streams: int = 0
    steps: int = 0
    changes: int = 0
    found: int = 0
    false: int = 0
    delays: list[int] = field(default_factory=list)
    dated: list[int] = field(default_factory=list)

    def add(self, reports: list[Change], true: list[int], steps: int) -> None:
        self.streams += 1
        self.steps += steps
        self.changes += len(true)
        missing = set(true)
        for report in reports:
            start = max((change for change in true if change <= report.at_step), default=None)
            if start not in missing:
                self.false += 1
                continue
            missing.remove(start)
            self.found += 1
            self.delays.append(report.at_step - start)
            self.dated.append(abs(report.started_at - start))

    def row(self, name: str) -> str:
        delay = f"{np.mean(self.delays):.1f}" if self.delays else "-"
        dated = f"{np.mean(self.dated):.2f}" if self.dated else "-"
        found = f"{self.found} of {self.changes}" if self.changes else "-"
        return f"| {name} | {found} | {self.false} | {delay} | {dated} |"


class Source:
    """Features of batches of two tasks, drawn from the packs of a folder and kept on disk."""

    def __init__(self, data: Path, cache: Path, seed: int, channels: int = 3) -> None:
        packs = [open_pack(path.parent) for path in sorted(data.glob("*/pack.json"))]
        # Two names for the same images are one domain.
        self.packs = list({pack.sha256: pack for pack in packs}.values())
        self.cache = cache
        self.seed = seed
        self.channels = channels
        self.extract = FrozenFeatures(channels)

    def kind_of(self, pack: int) -> Pictures:
        """All packs in the same channels."""
        return Pictures(self.packs[pack].image_size, self.channels)

    def draw(self, pack: int, variant: Variant, shots: int, steps: int, part: int) -> np.ndarray:
        key = f"{self.packs[pack].sha256}-{variant}-{shots}-{steps}-{part}-{self.seed}"
        file = self.cache / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.npy"
        if file.exists():
            return np.load(file, allow_pickle=False)
        geometry = TaskGeometry(5, shots, queries=1)
        sampler = TaskSampler(self.packs[pack], "train", geometry, self.kind_of(pack))
        rng = np.random.default_rng([self.seed, part, pack, shots, VARIANTS.index(variant)])
        rows = []
        for _ in range(steps):
            batch = sampler.draw(2, rng)
            rows.append(self.extract(TaskBatch(change_look(batch.images, variant), geometry)))
        np.save(file, np.stack(rows))
        return np.stack(rows)


def change_look(images: Tensor, variant: Variant) -> Tensor:
    """A domain made from another: uint8 [T, n, C, H, W] -> the same shape."""
    if variant == "inverted":
        return 255 - images
    if variant == "turned":
        return images.rot90(1, (-2, -1))
    if variant == "swapped":
        return images.flip(2)
    if variant == "pale":
        return (images.float() * 0.7 + 0.3 * 255).to(torch.uint8)
    if variant == "blurred":
        flat = images.flatten(0, 1).float()
        return F.avg_pool2d(flat, 3, 1, 1).to(torch.uint8).view(images.shape)
    return images


def real_streams(
    source: Source, shots: int, scale: float, orders: int, variants: bool
) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Streams [steps, D] and their true changes; with variants, six looks of random packs."""
    for order in range(orders):
        rng = np.random.default_rng([source.seed, order, round(1000 * scale), shots, variants])
        looks: list[tuple[int, Variant]] = [(p, "plain") for p in range(len(source.packs))]
        if variants:
            looks = [(p, v) for p, _ in looks for v in VARIANTS]
            # Swapping the channels of grey images changes nothing.
            grey = {p for p, pack in enumerate(source.packs) if pack.channels == 1}
            looks = [(p, v) for p, v in looks if p not in grey or v != "swapped"]
        chosen = [looks[i] for i in rng.permutation(len(looks))[: len(LENGTHS)]]
        steps = [round(length * scale) for length in LENGTHS]
        parts = [
            source.draw(pack, variant, shots, n, part=1000 + order)
            for (pack, variant), n in zip(chosen, steps, strict=False)
        ]
        starts = list(itertools.accumulate(map(len, parts)))
        yield np.concatenate(parts), starts[:-1]


def gaussian_streams(
    scale: float, orders: int, seed: int
) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Vectors of wild scales, heavy tails and strong correlation; a domain moves 10 of 40 means."""
    for order in range(orders):
        rng = np.random.default_rng([seed, order, 7])
        mixing = rng.normal(size=(40, 40)) * 10.0 ** rng.uniform(-6, 6, 40)
        parts = []
        for length in LENGTHS:
            shift = np.where(rng.random(40) < 0.25, rng.normal(0, 1.5, 40), 0.0)
            noise = rng.standard_t(4, (round(length * scale), 40))
            parts.append((noise + shift) @ mixing)
        starts = list(itertools.accumulate(map(len, parts)))
        yield np.concatenate(parts), starts[:-1]


def trained_streams(
    source: Source, shots: int, scale: float, orders: int
) -> Iterator[tuple[np.ndarray, list[int]]]:
    """The mean support embedding of a ProtoNet that trains on each stream, one task after another.

    The frozen features of the same batches stand to the right of it.
    """
    geometry = TaskGeometry(5, shots, queries=5)
    for order in range(orders):
        rng = np.random.default_rng([source.seed, order, 8])
        learner = make_learner(
            "protonet",
            image_size=source.packs[0].image_size,
            ways=5,
            filters=32,
            generator=order,
        )
        optimiser = torch.optim.Adam(learner.parameters(), lr=1e-3)
        rows, starts = [], []
        chosen = rng.permutation(len(source.packs))
        for pack, length in zip(chosen, LENGTHS, strict=False):
            starts.append(len(rows))
            sampler = TaskSampler(source.packs[pack], "train", geometry, source.kind_of(pack))
            for _ in range(round(length * scale)):
                tasks = sampler.draw(2, rng)
                outcome = learner(tasks)
                optimiser.zero_grad()
                outcome.loss.mean().backward()
                optimiser.step()
                network = outcome.embedding.detach().double().mean(0).numpy()
                rows.append(np.concatenate([network, source.extract(tasks)]))
        yield np.stack(rows), starts[1:]


def reports(rule: str, vectors: np.ndarray, scale: float, seed: int) -> list[Change]:
    config, watches_z = RULES[rule]
    if watches_z:
        projection = Projection()
        vectors = np.stack([projection.update(o) for o in vectors])
    return make_detector(replace(config, seed=seed).scaled(scale)).update_many(vectors)


def table(
    title: str,
    scale: float,
    streams: Callable[[], Iterator[tuple[np.ndarray, list[int]]]],
    rules: list[str],
) -> None:
    scores = {rule: Score() for rule in rules}
    for seed, (vectors, true) in enumerate(streams()):
        for rule, score in scores.items():
            score.add(reports(rule, vectors, scale, seed), true, len(vectors))
    first = next(iter(scores.values()))
    if not first.streams:
        return
    window = DetectionConfig().scaled(scale).window
    print(f"\n{title}: {first.streams} streams, {first.steps} steps, B={window} (paper: 2B)\n")
    print("| rule | found | false alarms | delay | error of the date |\n|---|---|---|---|---|")
    for rule, score in scores.items():
        print(score.row(rule), flush=True)


def main(
    data: Path,
    orders: int = 8,
    orders_long: int = 3,
    single_steps: int = 10_000,
    variant_orders: int = 8,
    network_orders: int = 0,
    cache: Path | None = None,
    seed: int = 0,
) -> None:
    """Print the tables.

    Parameters
    ----------
    data
        A folder of packs, all of one image size.
    orders, orders_long
        Random orders at scale 0.05 and at 0.2.
    single_steps
        Length of the streams without a change, one a pack. Any of these may be 0.
    variant_orders
        Orders of inverted, blurred, turned, colour-swapped and pale looks of the packs.
    network_orders
        Orders in which a ProtoNet trains, 1-shot, and its own embedding is watched.
    cache
        Where features are kept between calls; a temporary folder if not given.
    seed
        Another seed draws other orders and other tasks.
    """
    torch.set_num_threads(1)
    everything, ours = list(RULES), ["default", "default, delta 8", "fourier"]
    with tempfile.TemporaryDirectory() as temporary:
        source = Source(data, cache or Path(temporary), seed)
        source.cache.mkdir(parents=True, exist_ok=True)
        for shots in (1, 5):
            for scale, n in ((0.05, orders), (0.2, orders_long)):
                table(
                    f"{shots}-shot, scale {scale}, {len(source.packs)} domains",
                    scale,
                    lambda shots=shots, scale=scale, n=n: real_streams(
                        source, shots, scale, n, False
                    ),
                    everything,
                )
            for scale in (0.05, 1.0):
                table(
                    f"{shots}-shot, each domain alone, settings of scale {scale}",
                    scale,
                    lambda shots=shots: (
                        (source.draw(pack, "plain", shots, single_steps, 1), [])
                        for pack in range(len(source.packs) if single_steps else 0)
                    ),
                    everything,
                )
            table(
                f"{shots}-shot, scale 0.05, changed looks",
                0.05,
                lambda shots=shots: real_streams(source, shots, 0.05, variant_orders, True),
                ours,
            )
        if network_orders:
            streams = list(trained_streams(source, 1, 0.05, network_orders))
            dim = streams[0][0].shape[1] - source.extract.dim
            for name, part in (
                ("network", slice(dim)),
                ("both", slice(None)),
                ("frozen", slice(dim, None)),
            ):
                table(
                    f"1-shot, scale 0.05, {name} features while a ProtoNet trains",
                    0.05,
                    lambda part=part: iter([(rows[:, part], true) for rows, true in streams]),
                    everything,
                )
    table("Synthetic vectors, scale 0.05", 0.05, lambda: gaussian_streams(0.05, orders, seed), ours)


if __name__ == "__main__":
    tyro.cli(main)
