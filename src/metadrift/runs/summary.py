"""The final numbers of a run, as `summary.json` holds them."""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import numpy as np

from metadrift import registry
from metadrift.evaluation.detection import score_detection, score_labels
from metadrift.evaluation.metrics import backward_transfer, forgetting, worst_domain
from metadrift.evaluation.protocol import DomainAccuracy, overall
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.methods.replaying import ReplayingMethod
from metadrift.runs.build import Parts
from metadrift.runs.config import RunConfig, describe_fresh
from metadrift.runs.record import versions
from metadrift.runs.resolve import depends_on, fingerprint
from metadrift.runs.saving import RunState
from metadrift.streams import Benchmark


def summarise(
    config: RunConfig,
    settings: dict[str, Any],
    parts: Parts,
    accuracy: dict[str, DomainAccuracy],
    state: RunState,
    before: dict[str, DomainAccuracy] | None = None,
) -> dict[str, Any]:
    """Gather the final numbers.

    `settings` is everything that they depend on. `before` is the accuracy without the rehearsal,
    if there was one.
    """
    return {
        **_head(config, settings, parts.benchmark.steps),
        **_accuracy(accuracy),
        "before_rehearsal": None if before is None else _accuracy(before)["accuracy"],
        "stages": state.stages,
        **_kept(parts, state.stages),
        "detection": _detection(parts, state.reports),
        "memory": _memory(parts),
        "timing": _timing(parts, state.seconds),
        "skipped_steps": state.skipped,
        # Trace of the replay gradient's covariance, PETS over uniform, mean over the measurements.
        "variance_ratio": float(np.mean(state.variance)) if state.variance else None,
        "domains": parts.benchmark.domains,
        "segments": [[s.domain, s.steps] for s in parts.benchmark.segments],
        "example": parts.stream.kind.as_table(),
    }


def merge_independent(
    config: RunConfig, benchmark: Benchmark, summaries: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """One summary of the runs that each had one domain."""
    each = {name: s["accuracy"]["per_domain"][name] for name, s in summaries.items()}
    scored = {
        name: DomainAccuracy(
            row["mean"], math.nan if row["ci95"] is None else row["ci95"], row["tasks"], np.empty(0)
        )
        for name, row in each.items()
    }
    return {
        **_head(config, depends_on(config, benchmark), sum(s["steps"] for s in summaries.values())),
        **_accuracy(scored),
        "before_rehearsal": None,
        "stages": [],
        "forgetting": None,  # each learner has one domain only
        "backward_transfer": None,
        "detection": None,
        "memory": None,
        "timing": {
            "wall_s": sum(s["timing"]["wall_s"] for s in summaries.values()),
            "finished": _now(),
        },
        "skipped_steps": sum(s["skipped_steps"] for s in summaries.values()),
        "domains": list(each),
        "segments": [segment for s in summaries.values() for segment in s["segments"]],
        "example": next(iter(summaries.values()))["example"],
    }


def shares_by_domain(parts: Parts) -> dict[str, float]:
    """Each true domain's share of memory, by the step at which a batch arrived."""
    method = parts.method
    if parts.truth is None or not isinstance(method, ReplayingMethod) or not len(method.memory):
        return {}
    steps = method.memory.step[: len(method.memory)].tolist()
    counts = Counter(parts.truth.domain_at(parts.clock.stream_step(step)) for step in steps)
    return {name: counts[name] / len(steps) for name in parts.truth.domains}


def _head(config: RunConfig, settings: dict[str, Any], steps: int) -> dict[str, Any]:
    return {
        "method": registry.short(config.method),
        "oracle": config.oracle,
        "learner": registry.short(config.learner),
        "benchmark": settings["benchmark"],
        "scale": settings["scale"],
        "ways": config.ways,
        "shots": config.shots,
        "queries": config.queries,
        "seed": config.seed,
        "split": config.split,
        "normalisation": config.learn.normalisation,
        "precision": config.precision,
        "fresh": describe_fresh(config.fresh, config.transform),
        "steps": steps,
        "versions": versions(),
        "settings": settings,
        "config_sha256": fingerprint(settings),
    }


def _accuracy(accuracy: dict[str, DomainAccuracy]) -> dict[str, Any]:
    mean, ci95 = overall(accuracy)
    rows = {
        name: {"mean": scored.mean, "ci95": scored.ci95, "tasks": scored.tasks}
        for name, scored in accuracy.items()
    }
    worst, lowest = worst_domain({name: scored.mean for name, scored in accuracy.items()})
    return {
        "accuracy": {"mean": mean, "ci95": ci95, "per_domain": rows},
        "worst_domain": {"name": worst, "mean": lowest},
    }


def _kept(parts: Parts, stages: list[dict[str, float]]) -> dict[str, Any]:
    """Forgetting and backward transfer. The last stage is the final weights on the same tasks."""
    if parts.truth is None or not stages:
        return {"forgetting": None, "backward_transfer": None}
    stays = parts.truth.stays
    return {
        "forgetting": forgetting(stages, stays),
        "backward_transfer": backward_transfer(stages, stays),
    }


def _detection(parts: Parts, reports: list[int]) -> dict[str, Any] | None:
    if parts.truth is None or not isinstance(parts.method, M2D3PETS):
        return None
    date = parts.clock.stream_step
    stays = [(date(first), label) for first, label in parts.method.domains.stays]
    changes = score_detection(parts.truth.changes, reports, parts.benchmark.steps)
    return asdict(changes) | asdict(score_labels(parts.truth, stays))


def _memory(parts: Parts) -> dict[str, Any] | None:
    method = parts.method
    if parts.buffer is None or not isinstance(method, ReplayingMethod):
        return None
    shares = shares_by_domain(parts)
    parts_of_entropy = [-share * math.log(share) for share in shares.values() if share > 0]
    return {
        "capacity": parts.buffer.capacity,
        "bytes": parts.buffer.nbytes,
        "shares_by_true_domain": shares,
        "min_share": min(shares.values(), default=0.0),
        "entropy": sum(parts_of_entropy) / math.log(max(len(shares), 2)),
        "acceptance_rate": method.memory.acceptance_rate,
    }


def _timing(parts: Parts, seconds: dict[str, float]) -> dict[str, Any]:
    train = max(seconds["train"], 1e-9)
    spent = {"data": seconds["data"], **parts.method.clock.seconds}
    return {
        "wall_s": seconds["train"] + spent.get("rehearsal", 0.0),
        "finished": _now(),
        "processes": parts.method.group.size,
        "steps_per_s": parts.benchmark.steps / train,
        "overhead": {name: value / train for name, value in spent.items()},
        "peak_rss_bytes": _peak_bytes(),
    }


def _peak_bytes() -> int | None:
    """The peak memory of this process; None on Windows, where Python cannot measure it."""
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there, in KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
