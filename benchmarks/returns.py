"""Do domains that come back get their old label, and are blurred and short stays found?

    python benchmarks/returns.py --data FOLDER_OF_PACKS --out returns.json

Streams of few-shot tasks run through the packs of the folders and the six built-in domains, in
random orders; no learner is trained. Four questions, each for 1 and 5 shots:

- *returns*: six domains with the paper's lengths times a scale, and two of them once more;
- *changes*: the same without returns, at scale 0.05, abrupt, blended over 40 steps, and with stays
  of 30 to 75 steps;
- *still*: every domain alone;
- *forced*: every domain alone, with thresholds so low that there are false alarms.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import tyro

from metadrift.data.pack import Pack, open_pack
from metadrift.data.sampler import TaskSampler
from metadrift.data.synthetic.draw import BUILTIN
from metadrift.data.synthetic.generate import ensure_builtin
from metadrift.detection import Change, DetectionConfig, FrozenFeatures, make_detector
from metadrift.detection.returns import LatentDomains
from metadrift.evaluation.detection import score_detection, score_labels
from metadrift.examples import Pictures
from metadrift.storage.files import write_json
from metadrift.streams import Truth
from metadrift.streams.benchmark import Segment
from metadrift.tasks import TaskGeometry

LENGTHS = (5000, 2000, 6000, 2000, 2000, 24000)
RETURN = 3000  # steps at full length, as in the paper's stream with a return
FORCED = DetectionConfig(delta=2.0, level=0.5)


def main(
    data: list[Path],
    out: Path,
    cache: Path = Path("returns-features"),
    seed: int = 0,
    orders: int = 8,
    still_steps: int = 5000,
    forced: int = 20,
    tasks: int = 20_000,
) -> None:
    """Print the tables, and write the numbers to a file.

    Parameters
    ----------
    data
        Folders of packs, all of the image size of the built-in domains (28).
    out
        A JSON file for the numbers.
    cache
        Where features are kept between calls.
    seed
        Another seed draws other tasks and other orders.
    orders
        Streams of each kind.
    still_steps
        Length of a stream without a change.
    forced
        How many false alarms to force.
    tasks
        Drawn from each domain; a longer stay goes through them again.
    """
    torch.set_num_threads(1)
    cache.mkdir(parents=True, exist_ok=True)
    rows = []
    for shots in (1, 5):
        pools = all_features(data, cache, seed, shots, tasks)
        print(f"\n{shots}-shot, {len(pools)} domains: {', '.join(pools)}", flush=True)
        for scale in (0.05, 0.2):
            rows.append({"shots": shots, "scale": scale, **returns(pools, seed, scale, orders)})
        for kind in ("abrupt", "blended", "short"):
            rows.append({"shots": shots, "scale": 0.05, **changes(pools, seed, kind, orders)})
        rows.append({"shots": shots, "scale": 0.05, **still(pools, still_steps)})
        rows.append({"shots": shots, "scale": 0.05, **force(pools, forced)})
    write_json(out, {"seed": seed, "rows": rows})


def returns(pools: Pools, seed: int, scale: float, orders: int) -> Row:
    """Six domains, and two of them again."""
    total: Counter[str] = Counter()
    delays: list[float] = []
    for order in range(orders):
        rng = np.random.default_rng([seed, order, round(1000 * scale)])
        names = [str(name) for name in rng.permutation(list(pools))[: len(LENGTHS)]]
        stays = [Segment(n, round(k * scale)) for n, k in zip(names, LENGTHS, strict=True)]
        for again in rng.permutation(len(names) - 1)[:2].tolist():
            places = [
                i
                for i in range(1, len(stays) + 1)
                if names[again] in {s.domain for s in stays[:i]}
                and names[again] not in {s.domain for s in stays[max(0, i - 1) : i + 1]}
            ]
            stays.insert(int(rng.choice(places)), Segment(names[again], round(RETURN * scale)))
        found = watch(stream(pools, stays, rng), DetectionConfig(seed=order).scaled(scale))
        truth = Truth(stays)
        score = score_detection(truth.changes, [c.at_step for c in found.changes], truth.ends[-1])
        labels = score_labels(truth, found.stays)
        delays += [score.mean_delay] * score.detected
        total += Counter(
            streams=1,
            changes=score.true_changes,
            found=score.detected,
            false=score.false_alarms,
            returns=labels.returns,
            recognised=labels.recognised,
            wrong=labels.wrong_labels,
            right_number=labels.latent_domains == labels.true_domains,
        )
    return say("returns", scale, total, delays)


def changes(pools: Pools, seed: int, kind: str, orders: int) -> Row:
    """Six domains once each."""
    total: Counter[str] = Counter()
    delays: list[float] = []
    for order in range(orders):
        rng = np.random.default_rng([seed, order, 7])
        names = [str(name) for name in rng.permutation(list(pools))[: len(LENGTHS)]]
        lengths = [round(k * 0.05) for k in LENGTHS]
        if kind == "short":
            lengths = rng.integers(30, 76, len(LENGTHS)).tolist()
        blends = [0] + [40 if kind == "blended" else 0] * (len(LENGTHS) - 1)
        stays = [Segment(*stay) for stay in zip(names, lengths, blends, strict=True)]
        found = watch(stream(pools, stays, rng), DetectionConfig(seed=order).scaled(0.05))
        truth = Truth(stays)
        score = score_detection(truth.changes, [c.at_step for c in found.changes], truth.ends[-1])
        labels = score_labels(truth, found.stays)
        delays += [score.mean_delay] * score.detected
        total += Counter(
            streams=1,
            changes=score.true_changes,
            found=score.detected,
            false=score.false_alarms,
            wrong=labels.wrong_labels,
            right_number=labels.latent_domains == labels.true_domains,
        )
    return say(kind, 0.05, total, delays)


def still(pools: Pools, steps: int) -> Row:
    """Each domain alone."""
    total: Counter[str] = Counter()
    for order, pool in enumerate(pools.values()):
        found = watch(pairs(pool)[:steps], DetectionConfig(seed=order).scaled(0.05))
        total += Counter(streams=1, steps=min(steps, len(pool) // 2), false=len(found.changes))
    return say("still", 0.05, total, [])


def force(pools: Pools, alarms: int) -> Row:
    """Each domain alone, the thresholds lowered, until there were so many false alarms."""
    total: Counter[str] = Counter()
    for order, pool in enumerate(pools.values()):
        for part in np.array_split(pairs(pool), 10):
            if total["false"] >= alarms:
                break
            found = watch(part, replace(FORCED, seed=order).scaled(0.05))
            # The last alarm may have come too late for a decision.
            last = len(part) - found.stays[-1][0] < 2 * FORCED.scaled(0.05).window
            stays = found.stays[:-1] if last and len(found.stays) > 1 else found.stays
            left = len({label for _, label in stays}) - 1
            decided = len(found.changes) - (len(found.stays) - len(stays))
            total += Counter(streams=1, false=decided, extra=left)
    return say("forced", 0.05, total, [])


Pools = dict[str, np.ndarray]
Row = dict[str, object]


@dataclass(frozen=True)
class Found:
    changes: list[Change]
    stays: list[tuple[int, int]]


def watch(vectors: np.ndarray, config: DetectionConfig) -> Found:
    """The detector and the latent domains along a stream [steps, D]."""
    detector, domains = make_detector(config), LatentDomains(config)
    found = []
    for vector in vectors:
        change = detector.update(vector)
        domains.update(vector, change)
        if change:
            found.append(change)
    return Found(found, domains.stays)


def stream(pools: Pools, stays: Sequence[Segment], rng: np.random.Generator) -> np.ndarray:
    """[steps, D]: the mean of two tasks a step, each of its domain or, in a blend, the one before.

    Frozen features of a batch are the mean of those of its tasks.
    """
    truth = Truth(stays)
    draws = {name: endless(pool, rng) for name, pool in pools.items()}
    rows = []
    for step in range(truth.ends[-1]):
        before, likely = truth.blend_at(step)
        names = [before if rng.random() < likely else truth.domain_at(step) for _ in range(2)]
        rows.append(np.mean([next(draws[name]) for name in names], axis=0))
    return np.stack(rows)


def endless(pool: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    while True:
        yield from pool[rng.permutation(len(pool))]


def pairs(pool: np.ndarray) -> np.ndarray:
    return (pool[::2] + pool[1::2]) / 2


def all_features(data: list[Path], cache: Path, seed: int, shots: int, tasks: int) -> Pools:
    """Frozen features [tasks, D] of single tasks, of each pack and each built-in domain."""
    packs = [
        open_pack(file.parent) for folder in data for file in sorted(folder.glob("*/pack.json"))
    ]
    return {
        p.name: features(p, cache, seed, shots, tasks) for p in [*packs, *ensure_builtin(BUILTIN)]
    }


def features(pack: Pack, cache: Path, seed: int, shots: int, tasks: int) -> np.ndarray:
    key = f"{pack.sha256}-{shots}-{tasks}-{seed}"
    file = cache / f"{pack.name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npy"
    if file.exists():
        return np.load(file, allow_pickle=False)
    kind = Pictures(pack.image_size)
    sampler = TaskSampler(pack, "train", TaskGeometry(5, shots, queries=1), kind)
    extract = FrozenFeatures(3)
    rng = np.random.default_rng([seed, shots, int(pack.sha256[:8], 16)])
    rows = np.stack([extract(sampler.draw(1, rng)) for _ in range(tasks)])
    np.save(file, rows)
    return rows


def say(kind: str, scale: float, total: Counter[str], delays: list[float]) -> Row:
    row: Row = {"kind": kind, **total, "delay": float(np.mean(delays)) if delays else None}
    print(json.dumps(row | {"scale": scale}), flush=True)
    return row


if __name__ == "__main__":
    tyro.cli(main)
