"""One run: the loop over the stream, its checkpoints, and how it ends.

Each pass of the loop is one step: learn, write down, evaluate where a true segment ends, and
checkpoint where one is due. The state after a pass is all that the next one needs, so a run that
was killed goes on from its last checkpoint to the same bytes.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metadrift.errors import MetadriftError
from metadrift.evaluation.protocol import DomainAccuracy
from metadrift.evaluation.variance import replay_variance
from metadrift.learners.allocator import keep_freed_memory
from metadrift.methods.base import NonFiniteError
from metadrift.methods.group import Group
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import PETS
from metadrift.runs.alone import alone_in, is_empty
from metadrift.runs.board import Board
from metadrift.runs.build import Parts, build, plan
from metadrift.runs.checkpoint import (
    DAMAGE,
    checkpoints,
    load_checkpoint,
    prune,
    remove_leftovers,
    save_checkpoint,
    steps_of,
)
from metadrift.runs.config import RunConfig, load_config, to_toml
from metadrift.runs.files import is_folder_name, read_json, write_atomically, write_json
from metadrift.runs.guard import WeightGuard
from metadrift.runs.progress import RunProgress
from metadrift.runs.record import Recorder
from metadrift.runs.shards import my_memory, save_shards
from metadrift.runs.signals import stop_signals
from metadrift.runs.summary import merge_independent, shares_by_domain, summarise
from metadrift.runs.together import evaluate_together
from metadrift.streams import open_packs
from metadrift.streams.prefetch import Prefetch


class InterruptedRunError(MetadriftError):
    """The run was asked to stop and has saved itself."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


def start(
    config: RunConfig, folder: Path, quiet: bool = False, group: Group | None = None
) -> dict[str, Any]:
    """Begin a run in a new folder; gives its summary.

    Of a group of processes all call this; the leading one writes the folder.
    """
    group = group or Group()
    # A wrong benchmark or a missing pack is said before anything is written.
    if group.leads:
        _refuse_taken(folder)
    open_packs(plan(config, group), config.data, config.size)
    with alone_in(folder) if group.leads else nullcontext():
        if group.leads:
            _refuse_taken(folder)
            write_atomically(folder / "config.toml", to_toml(config))
        group.wait()
        return _carry_on(folder, quiet, group)


def go_on(folder: Path, quiet: bool = False, group: Group | None = None) -> dict[str, Any]:
    """Continue a run from its last checkpoint, or from the start if it has none.

    The group may have another number of processes than the one that began the run.
    """
    group = group or Group()
    if not (folder / "config.toml").is_file():
        raise MetadriftError(f"{folder} is not a run's folder: it has no config.toml")
    if (folder / "summary.json").is_file():
        return read_json(folder / "summary.json")
    with alone_in(folder) if group.leads else nullcontext():
        return _carry_on(folder, quiet, group)


def _refuse_taken(folder: Path) -> None:
    if not is_empty(folder):
        raise MetadriftError(
            f"{folder} exists already: `metadrift resume {folder}` goes on with it, another --name "
            "begins a new run"
        )


def _carry_on(folder: Path, quiet: bool, group: Group) -> dict[str, Any]:
    config = load_config(folder / "config.toml")
    if config.method == "independent":
        return _independent(config, folder, quiet, group)
    return _Run(config, folder, quiet, group).finish()


def _independent(config: RunConfig, folder: Path, quiet: bool, group: Group) -> dict[str, Any]:
    """A learner for each domain, each a run of its own in a folder of its own."""
    summaries = {}
    for domain in plan(config).domains:
        alone = replace(config, method="sequential", only=domain, stage_tasks=0)
        if not is_folder_name(domain):
            raise MetadriftError(
                f"independent training keeps each domain in a folder of its name, and {domain!r} "
                "cannot be one"
            )
        home = folder / "domains" / domain
        (begin,) = group.tell([not (home / "config.toml").is_file()])
        summaries[domain] = start(alone, home, quiet, group) if begin else go_on(home, quiet, group)
    summary = merge_independent(config, summaries)
    if group.leads:
        write_json(folder / "summary.json", summary)
    return summary


class _Run:
    def __init__(self, config: RunConfig, folder: Path, quiet: bool, group: Group) -> None:
        keep_freed_memory()
        if config.threads:
            torch.set_num_threads(config.threads)
        self.config, self.folder, self.group = config, folder, group
        group.seconds = 0.0
        self.parts: Parts = build(config, folder, group)
        self.recorder = Recorder(folder, config.log_every, writes=group.leads)
        self.board = Board(folder) if config.tensorboard and group.leads else None
        self.step = 0
        self.stages: list[dict[str, float]] = []
        self.reports: list[int] = []
        self.seconds = {"train": 0.0, "data": 0.0}
        self.skipped = 0
        self.variance: list[float] = []
        self.guard = WeightGuard(self.parts.learner)
        self.saved: Path | None = None  # the checkpoint of this very step
        damaged = self._load()
        self.progress = RunProgress(len(self.parts.stream), self.step, quiet or not group.leads)
        self.progress.say(f"{self.folder}: {self.parts.benchmark.describe()}")
        for error in damaged:
            self.progress.say(f"{error}; going on from the one before it, step {self.step}")
        if self.parts.buffer:
            megabytes = self.parts.buffer.nbytes / 1e6
            self.progress.say(f"memory: {self.parts.buffer.capacity} batches, {megabytes:.1f} MB")

    def finish(self) -> dict[str, Any]:
        """Run to the end of the stream and write the summary."""
        try:
            with stop_signals() as stopped:
                with Prefetch(self.parts.stream) as stream:
                    self._train(stream, stopped)
                self._save()  # whatever happens in evaluation, the training is kept
                accuracy = self._evaluate(self.config.test_tasks, stopped)
        finally:
            self.progress.close()
            if self.board:
                self.board.close()
        summary = summarise(
            self.config,
            self.parts,
            accuracy,
            stages=self.stages,
            reports=self.reports,
            seconds=self.seconds,
            skipped=self.skipped,
            variance=self.variance,
        )
        if not self.group.leads:
            return summary
        write_json(self.folder / "summary.json", summary)
        return read_json(self.folder / "summary.json")  # the same for a caller as for a reader

    def _train(self, stream: Prefetch, stopped: list[int]) -> None:
        ends = self.parts.truth.ends if self.parts.truth and self.config.stage_tasks else []
        last_saved = self.step
        while self.step < len(self.parts.stream):
            self._one_step(stream)
            if self.step in ends:
                self._stage()
            if self.config.variance_every and self.step % self.config.variance_every == 0:
                self._measure_variance()
            self._stop_if_asked(self._agreed(stopped))
            if self.step - last_saved >= self.config.checkpoint_every:
                self._save()
                last_saved = self.step

    def _agreed(self, stopped: list[int]) -> list[int]:
        """The signals to obey now; several processes agree on the step when a line is due."""
        if self.group.size == 1:
            return stopped
        if self.step % self.config.log_every:
            return []
        number = int(self.group.gather([stopped[0] if stopped else 0]).max())
        return [number] if number else []

    def _stop_if_asked(self, stopped: list[int]) -> None:
        if stopped:
            raise InterruptedRunError(
                f"stopped at step {self.step}; the checkpoint is {self._save()}. "
                f"`metadrift resume {self.folder}` goes on.",
                stopped[0],
            )

    def _one_step(self, stream: Prefetch) -> None:
        begin = time.perf_counter()
        tasks = next(stream)
        got = time.perf_counter()
        try:
            with self.guard:
                record = self.parts.method.step(tasks)
        except NonFiniteError as error:
            self._non_finite(error)
            record = None
        self.seconds["data"] += got - begin
        self.seconds["train"] += time.perf_counter() - begin
        self.step += 1
        self.saved = None
        if record is None:
            return
        if record.change is not None:
            self.reports.append(record.change.at_step)
            self.recorder.event(self.step, "change", **asdict(record.change))
        line = self.recorder.step(self.step - 1, record, **self._memory(self.step))
        if line:
            self.progress.update(line)
            if self.board:
                self.board.show(line)

    def _memory(self, step: int) -> dict[str, Any]:
        """What memory holds and how it is drawn, when a line of metrics is due."""
        method = self.parts.method
        if step % self.config.log_every or not isinstance(method, ReplayingMethod):
            return {}
        stored = max(len(method.memory), 1)
        latent = {str(k): n / stored for k, n in sorted(method.memory.counts().items())}
        drawn = method.sampler.probabilities(method.memory) if len(method.memory) else {}
        return {
            "memory": latent,
            "sampling": {str(label): p for label, p in sorted(drawn.items())},
            "memory_true": shares_by_domain(self.parts),
        }

    def _non_finite(self, error: NonFiniteError) -> None:
        if self.config.on_nan == "skip":
            self.skipped += 1
            self.recorder.event(self.step, "skipped", reason=str(error))
            return
        kept = checkpoints(self.folder / "checkpoints")
        last = f"the last good checkpoint is {kept[-1]}" if kept else "there is no checkpoint yet"
        raise MetadriftError(
            f"{error} at step {self.step} with learning rate {self.config.lr:g}; the weights were "
            f"not touched and {last}. A lower --lr, or --on-nan skip, may help."
        ) from None

    def _measure_variance(self) -> None:
        method = self.parts.method
        if not isinstance(method, ReplayingMethod) or not len(method.memory):
            return
        if not isinstance(method.sampler, PETS):
            return
        rng = np.random.default_rng([self.config.seed, self.step])
        found = replay_variance(self.parts.learner, method.memory, method.sampler, rng)
        self.variance.append(found.ratio)
        self.recorder.event(self.step, "variance", **asdict(found), ratio=found.ratio)

    def _stage(self) -> None:
        accuracy = self._evaluate(self.config.stage_tasks)
        self.stages.append({name: scored.mean for name, scored in accuracy.items()})
        self.recorder.event(self.step, "evaluation", accuracy=self.stages[-1])
        mean = sum(self.stages[-1].values()) / len(self.stages[-1])
        self.progress.say(f"step {self.step}: mean accuracy of all domains {100 * mean:.1f}%")

    def _evaluate(self, tasks: int, stopped: list[int] | None = None) -> dict[str, DomainAccuracy]:
        return evaluate_together(
            self.parts.learner,
            self.parts.tests,
            tasks=tasks,
            seed=self.config.seed,
            progress=lambda _: self._stop_if_asked(stopped or []),
            group=self.group,
        )

    def _save(self) -> Path:
        if self.saved:  # stopped during the final evaluation, or resumed there
            return self.saved
        folder = self.folder / "checkpoints"
        method = self.parts.method.state_dict()
        shards = save_shards(folder, self.step, method, self.group)
        if self.group.leads:
            self._write_checkpoint(folder, method, shards)
        self.group.wait()
        self.saved = folder / f"step-{self.step}"
        return self.saved

    def _write_checkpoint(self, folder: Path, method: dict[str, Any], shards: Path | None) -> None:
        state = {
            "step": self.step,
            "processes": self.group.size,
            "stages": self.stages,
            "reports": self.reports,
            "seconds": self.seconds | {f"part {k}": v for k, v in self._parts_seconds().items()},
            "skipped": self.skipped,
            "variance": self.variance,
            "method": method,
        }
        self.recorder.event(self.step, "checkpoint")
        state["recorder"] = self.recorder.state_dict()
        save_checkpoint(folder, self.step, state, keep=self.config.keep, beside=shards)

    def _parts_seconds(self) -> dict[str, float]:
        seconds = self.parts.method.clock.seconds
        if self.group.size > 1:
            seconds["exchange"] = self.group.seconds
        return seconds

    def _load(self) -> list[MetadriftError]:
        """Take up the newest whole checkpoint; gives what was wrong with newer ones."""
        folder = self.folder / "checkpoints"
        if self.group.leads:
            remove_leftovers(folder)
        self.group.wait()
        damaged: list[MetadriftError] = []
        for step in reversed(self.group.tell(steps_of(checkpoints(folder)))):
            path = folder / f"step-{step}"
            error = self._try(path)
            self.group.wait()
            if self.group.gather([error is not None]).any():
                unreadable = MetadriftError(f"{path} could not be read by every process")
                damaged.append(error or unreadable)
                continue
            self.saved = path
            if self.group.leads:
                prune(folder, self.config.keep)
            return damaged
        if damaged:
            raise damaged[0]
        for name in ("metrics", "events") if self.group.leads else ():
            (self.folder / f"{name}.jsonl").write_bytes(b"")
        return []

    def _try(self, path: Path) -> MetadriftError | None:
        """Take up a checkpoint; gives what is wrong with it, if anything is."""
        try:
            self._restore(path, load_checkpoint(path))
        except MetadriftError as error:
            return error
        except DAMAGE as error:
            return MetadriftError(f"{path} does not fit this run: {error}")
        return None

    def _restore(self, path: Path, state: dict[str, Any]) -> None:
        self.step, steps = int(state["step"]), len(self.parts.stream)
        if not 0 <= self.step <= steps:
            raise MetadriftError(f"{path} is of step {self.step}, but the stream has {steps}")
        self.stages, self.reports = state["stages"], state["reports"]
        self.skipped, self.variance = int(state["skipped"]), state["variance"]
        spent = state["seconds"]
        self.seconds = {key: spent[key] for key in ("train", "data")}
        parts = {k.removeprefix("part "): v for k, v in spent.items() if k.startswith("part ")}
        self.parts.method.clock.seconds = parts
        self.group.seconds = parts.get("exchange", 0.0)
        saved_by = int(state.get("processes", 1))
        if self.parts.buffer and (saved_by, self.group.size) != (1, 1):
            rng = np.random.default_rng([self.config.seed, self.step])
            memory, room = state["method"]["memory"], self.parts.buffer.capacity
            memory = my_memory(path, memory, saved_by, self.group, room, rng)
            state["method"]["memory"] = memory
        self.parts.method.load_state_dict(state["method"])
        self.parts.stream.load_state_dict({"step": self.step})
        self.recorder.load_state_dict(state["recorder"])
