"""A long stream of small steps: does anything grow, slow down, leak or drift?

    python benchmarks/soak.py --steps 100000 --cycle --plugins --out soak

The real loop trains m2d3-pets with a small ProtoNet on the built-in domains: five of them in the
first tenth, the sixth for all the rest, so that one domain's statistic is kept for tens of
thousands of steps. `--cycle` goes ten times round through all six instead, so that domains return.
`--plugins` takes learner, memory and sampler from a file (benchmarks/soak_plugins.py), and calls a
callback. Resident memory, seconds of CPU a step and open files are written down 500 times. A
machine is not equally fast all the time, so the same forward and backward pass of a copy of the
first weights is timed between the steps: a step is said in such passes. It fails (code 1) when

- resident memory of the last tenth is more than 2 % away from that of the second tenth,
- CPU time a step, in passes (median), is more than 2 % away,
- more files are open at the end than in the second tenth,
- the statistic, kept incrementally, is more than 1e-9 away from its recomputation.

`--out` gets soak.json and soak.png.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from metadrift import registry
from metadrift.data.synthetic.draw import BUILTIN
from metadrift.detection.mmd import TwoWindowMMD, median_bandwidth, two_window_mmd
from metadrift.detection.whitening import Whitening
from metadrift.distributed.group import Group
from metadrift.methods.m2d3_pets import M2D3PETS
from metadrift.runs.callbacks import Callback
from metadrift.runs.config import LearnerConfig, RunConfig
from metadrift.runs.loop import _Run

SAMPLES = 500
WINDOW = 50
STEPS_A_PASS = 5  # how often the speed of the machine is looked at


@dataclass(frozen=True)
class Sample:
    """What is seen between two samples."""

    step: int
    rss_bytes: int
    open_files: int
    cpu_s_a_step: float
    wall_s_a_step: float
    cpu_s_a_pass: float  # of the copy, which never changes

    @property
    def passes_a_step(self) -> float:
        return self.cpu_s_a_step / self.cpu_s_a_pass


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path("soak"))
    parser.add_argument("--cycle", action="store_true")
    parser.add_argument("--plugins", action="store_true")
    parser.add_argument("--learner", choices=["protonet", "anil"], default="protonet")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / "run", ignore_errors=True)
    (out / "run").mkdir()
    benchmark = write_benchmark(out / "stream.toml", arguments.steps, arguments.cycle)
    config = RunConfig(
        benchmark=str(benchmark),
        learner=arguments.learner,
        size=12,
        queries=2,
        test_tasks=20,
        stage_tasks=0,
        checkpoint_every=max(1, arguments.steps // 20),
        threads=1,
        learn=LearnerConfig(filters=4),
    )
    callback = Counting()
    if arguments.plugins:
        config = with_plugins(config)
    run = _Run(config, out / "run", False, Group(), [callback] if arguments.plugins else [])
    samples, long = watch(run)
    run.finish()
    found = verdict(samples) | {
        "statistic_error": statistic_error(run),
        "whole_stream_error": long(),
    }
    limits = {
        "rss_change": abs(found["rss_change"]) <= 0.02,
        "passes_change": abs(found["passes_change"]) <= 0.02,
        "open_files_more": found["open_files_more"] <= 0,
        "statistic_error": found["statistic_error"] <= 1e-9,
        "whole_stream_error": found["whole_stream_error"] <= 1e-9,
    }
    result = {"steps": arguments.steps, "cycle": arguments.cycle, "learner": config.learner}
    result |= {"plugins": arguments.plugins, "lines_called_back": callback.lines}
    result |= {"found": found, "within": limits, "samples": [asdict(s) for s in samples]}
    (out / "soak.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(samples, out / "soak.png")
    for name, value in found.items():
        print(f"{name:20s} {value:12.3g}  {'' if limits.get(name, True) else 'TOO MUCH'}")
    print(out / "soak.json", out / "soak.png")
    return 0 if all(limits.values()) else 1


class Counting(Callback):
    """Counts the lines of metrics that it is shown."""

    lines = 0

    def on_step(self, line: Mapping[str, Any]) -> None:
        self.lines += 1


def with_plugins(config: RunConfig) -> RunConfig:
    """Learner, memory and sampler from a user's file."""
    file = Path(__file__).with_name("soak_plugins.py")
    names = [f"{file}:{name}" for name in ("OurLearner", "OurMemory", "OurSampler")]
    registry.allow(*names)
    learner, memory, sampler = names
    return replace(
        config,
        learner=learner,
        memory=replace(config.memory, rule=memory),
        replay=replace(config.replay, sampler=sampler),
    )


def write_benchmark(file: Path, steps: int, cycle: bool) -> Path:
    first, last = list(BUILTIN[:5]), BUILTIN[5]
    stays = [(name, steps // 50) for name in first] + [(last, steps - 5 * (steps // 50))]
    if cycle:
        stays = [(BUILTIN[k % 6], steps // 60) for k in range(60)]
    lines = ['packs = "builtin"', "memory = 60"]
    for name, length in stays:
        lines += ["[[segments]]", f'domain = "{name}"', f"steps = {length}"]
    file.write_text("\n".join(lines) + "\n")
    return file


def watch(run: _Run) -> tuple[list[Sample], Any]:
    """Take samples while the run goes on, and keep a statistic that is never begun anew."""
    samples: list[Sample] = []
    every = max(1, len(run.parts.stream) // SAMPLES // STEPS_A_PASS) * STEPS_A_PASS
    reference = Reference(run)
    cpu = wall = passing = 0.0
    one_step, features = run._one_step, run.parts.method.features  # type: ignore[attr-defined]
    early: list[np.ndarray] = []
    kept: list[np.ndarray] = []
    mmd: list[TwoWindowMMD] = []

    def seen(vector: np.ndarray) -> None:
        early.append(vector.copy()) if len(early) < 6 * WINDOW else None
        if len(early) == 6 * WINDOW and not mmd:
            mmd.append(TwoWindowMMD(WINDOW, median_bandwidth(np.stack(early))))
        if mmd:
            mmd[0].update(vector)
            kept.append(vector.copy())
            del kept[: -2 * WINDOW]

    def sampled(stream: Any) -> None:
        nonlocal cpu, wall, passing
        begun, clock = time.process_time(), time.perf_counter()
        one_step(stream)
        cpu, wall = cpu + time.process_time() - begun, wall + time.perf_counter() - clock
        if run.state.step % STEPS_A_PASS == 0:
            passing += reference.cpu_seconds()
        if run.state.step % every:
            return
        memory, files = resident_bytes(), len(os.listdir("/proc/self/fd"))
        each = cpu / every, wall / every, passing / (every // STEPS_A_PASS)
        samples.append(Sample(run.state.step, memory, files, *each))
        cpu = wall = passing = 0.0

    def whole_stream_error() -> float:
        if not mmd or len(kept) < 2 * WINDOW:
            return float("nan")
        u, v = np.stack(kept[:WINDOW]), np.stack(kept[WINDOW:])
        again = TwoWindowMMD.from_state(mmd[0].state_dict())
        W = again.update(kept[-1])  # one further step, on both sides
        u, v = np.stack([*u[1:], v[0]]), np.stack([*v[1:], kept[-1]])
        return abs(W - two_window_mmd(u, v, mmd[0].bandwidth))

    run._one_step = sampled  # type: ignore[method-assign]
    run.parts.method.features = Watched(features, seen)  # type: ignore[attr-defined]
    return samples, whole_stream_error


class Watched:
    """Features that show every vector to somebody else too."""

    def __init__(self, features: Any, look: Callable[[np.ndarray], None]) -> None:
        self._features, self._look = features, look

    def __call__(self, *arguments: Any) -> np.ndarray:
        vector: np.ndarray = self._features(*arguments)
        self._look(vector)
        return vector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._features, name)


class Reference:
    """A piece of work that is always the same: one pass of a copy of the learner over two tasks."""

    def __init__(self, run: _Run) -> None:
        self.learner = copy.deepcopy(run.parts.learner)
        self.tasks = run.parts.stream.batch(0)

    def cpu_seconds(self) -> float:
        begun = time.process_time()
        self.learner(self.tasks).loss.mean().backward()
        self.learner.zero_grad(set_to_none=True)
        return time.process_time() - begun


def statistic_error(run: _Run) -> float:
    """The detector's own statistic against the definition, on the vectors it still has."""
    assert isinstance(run.parts.method, M2D3PETS)
    detector = run.parts.method.detector
    state = detector.state_dict()
    windows = state["windows"]
    if windows is None:
        return 0.0  # it is still learning what this domain looks like, and keeps no statistic
    white, B = Whitening.from_state(windows["white"]), int(windows["mmd"]["B"])
    newest = white(np.asarray(state["history"])[-2 * B :])
    W = two_window_mmd(newest[:B], newest[B:], float(windows["width"]))
    return abs(W - detector.statistic)


def verdict(samples: list[Sample]) -> dict[str, float]:
    n = len(samples)
    second, last = samples[n // 10 : n // 5], samples[-(n // 10) :]

    def change(name: str) -> float:
        before, after = (
            statistics.median(getattr(s, name) for s in part) for part in (second, last)
        )
        return after / before - 1

    return {
        "rss_change": change("rss_bytes"),
        "passes_change": change("passes_a_step"),
        "cpu_change": change("cpu_s_a_step"),
        "wall_change": change("wall_s_a_step"),
        "open_files_more": max(s.open_files for s in last) - max(s.open_files for s in second),
        "rss_mb": last[-1].rss_bytes / 1e6,
        "cpu_ms_a_step": 1e3 * statistics.median(s.cpu_s_a_step for s in last),
    }


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def draw(samples: list[Sample], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    steps = [s.step for s in samples]
    curves = {
        "resident memory, MB": [s.rss_bytes / 1e6 for s in samples],
        "CPU time a step, in passes": [s.passes_a_step for s in samples],
        "open files": [s.open_files for s in samples],
    }
    figure, axes = plt.subplots(len(curves), 1, figsize=(7, 6), sharex=True)
    for axis, (title, values) in zip(axes, curves.items(), strict=True):
        axis.plot(steps, values, linewidth=1)
        axis.set_ylim(0, 1.15 * max(values))
        axis.set_ylabel(title, fontsize=8)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("step")
    figure.tight_layout()
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    raise SystemExit(main())
