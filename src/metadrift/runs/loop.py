"""One run: the loop over the stream, its checkpoints, and how it ends.

Each pass of the loop is one step: learn, record, evaluate at the end of a true segment, and write a
checkpoint when one is due. A checkpoint holds everything that the next pass needs, so a run that
was killed resumes to the same bytes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from metadrift.distributed.group import Group
from metadrift.errors import MetadriftError, UsageError
from metadrift.evaluation.protocol import DomainAccuracy, evaluate, overall
from metadrift.evaluation.variance import replay_variance
from metadrift.learners import MetaLearner
from metadrift.methods.base import NonFiniteError, StepRecord
from metadrift.methods.replaying import ReplayingMethod
from metadrift.methods.specialists import Specialists
from metadrift.randomness import Purpose, generator
from metadrift.runs.build import Parts, build, plan, scored_domains
from metadrift.runs.callbacks import Callback, loggers
from metadrift.runs.checkpoint import FOREIGN, checkpoints
from metadrift.runs.config import RunConfig
from metadrift.runs.folder import (
    is_unused,
    read_settings,
    refuse_other_run,
    refuse_taken,
    write_settings,
)
from metadrift.runs.folder_lock import folder_lock, refuse_links
from metadrift.runs.guard import WeightGuard
from metadrift.runs.prepare import prepared, settle_precision
from metadrift.runs.progress import RunProgress
from metadrift.runs.record import Recorder, versions
from metadrift.runs.resolve import depends_on
from metadrift.runs.saving import RunState, Saver
from metadrift.runs.signals import stop_signals
from metadrift.runs.summary import merge_independent, shares_by_domain, summarise
from metadrift.storage.files import write_json
from metadrift.storage.reading import read_json
from metadrift.streams import open_packs
from metadrift.streams.prefetch import Prefetch


class InterruptedRunError(MetadriftError):
    """The run was asked to stop, and has written a checkpoint."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


def start(
    config: RunConfig,
    folder: Path,
    quiet: bool = False,
    group: Group | None = None,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Begin a run in a new folder. Returns its summary.

    All processes of a group call this. Process 0 writes the folder and calls `callbacks`.
    """
    group = group or Group()
    if group.leads:
        refuse_taken(folder)
    config, why = settle_precision(config, group)
    settings = prepared(config, group)
    if why and group.leads and not quiet:
        print(why, file=sys.stderr)
    with folder_lock(folder) if group.leads else nullcontext():
        if group.leads:
            refuse_taken(folder)
            write_settings(folder, *settings)
        group.wait()
        return _carry_on(folder, quiet, group, callbacks)


def go_on(
    folder: Path,
    quiet: bool = False,
    group: Group | None = None,
    patience: float = 0.0,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Continue a run from its last checkpoint, or from the start if it has none.

    The number of processes may differ from the one that began the run. If another program holds
    the folder, this one waits up to `patience` seconds.
    """
    group = group or Group()
    refuse_links(folder)
    if (folder / "summary.json").is_file():
        return read_json(folder / "summary.json")
    read_settings(folder)
    with folder_lock(folder, patience) if group.leads else nullcontext():
        return _carry_on(folder, quiet, group, callbacks)


def _carry_on(
    folder: Path, quiet: bool, group: Group, callbacks: Sequence[Callback]
) -> dict[str, Any]:
    config = read_settings(folder)
    if config.method == "independent":
        return _independent(config, folder, quiet, group, callbacks)
    return _Run(config, folder, quiet, group, callbacks).finish()


def _independent(
    config: RunConfig, folder: Path, quiet: bool, group: Group, callbacks: Sequence[Callback]
) -> dict[str, Any]:
    """One learner per domain, each trained by a separate run in its own folder."""
    summaries = {}
    benchmark = plan(config)
    packs = open_packs(benchmark, config.data, config.size)
    for domain in scored_domains(config, benchmark, packs):
        alone = replace(config, method="sequential", only=domain, stage_tasks=0)
        home = folder / "domains" / domain
        (begin,) = group.tell([is_unused(home)])
        if not begin:
            refuse_other_run(home, *prepared(alone, group))
        do = partial(start, alone) if begin else go_on
        summaries[domain] = do(home, quiet, group, callbacks=callbacks)
    summary = merge_independent(config, benchmark, summaries)
    if group.leads:
        write_json(folder / "summary.json", summary)
    return summary


class _Run:
    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        quiet: bool,
        group: Group,
        callbacks: Sequence[Callback],
    ) -> None:
        if config.threads:
            torch.set_num_threads(config.threads)
        self.config, self.folder, self.group = config, folder, group
        group.seconds = 0.0
        self.parts: Parts = build(config, folder, group)
        self.recorder = Recorder(folder, config.log_every, writes=group.leads)
        self.callbacks = [*loggers(config), *callbacks] if group.leads else []
        self.state = RunState()
        self.settings = depends_on(config, self.parts.benchmark)
        self.saver = Saver(
            folder, config.keep, config.seed, group, self.parts, self.recorder, self.settings
        )
        self.guard = WeightGuard(self.parts.learner)
        notes = self.saver.load(self.state)
        self.resumed_at = done = self.state.step
        self.recorder.event(
            done, "resumed" if done else "began", versions=versions(), processes=group.size
        )
        for callback in self.callbacks:
            callback.on_begin(folder, self.settings, done)
        self.progress = RunProgress(len(self.parts.stream), done, quiet or not group.leads)
        self.progress.say(f"{self.folder}: {self.parts.benchmark.describe()}")
        for note in [*notes, *self._blindness()]:
            self.progress.say(note)
        if self.parts.buffer:
            megabytes = self.parts.buffer.nbytes / 1e6
            self.progress.say(f"memory: {self.parts.buffer.capacity} batches, {megabytes:.1f} MB")

    def _blindness(self) -> list[str]:
        """A warning if the detector cannot see changes on this stream."""
        if self.config.method != "m2d3-pets" or self.config.labels == "oracle":
            return []
        stays = [segment.steps for segment in self.parts.benchmark.segments]
        said = self.config.detection.blind_to(stays)
        return [f"note: {said}"] if said else []

    def finish(self) -> dict[str, Any]:
        """Run to the end of the stream and write the summary."""
        summary = None
        try:
            with stop_signals() as stopped:
                with Prefetch(self.parts.stream) as stream:
                    self._train(stream, stopped)
                self.saver.save(self.state)  # keep the training, even if what follows fails
                copies = self._rehearse(stopped)
                width = self.config.test_precision / 100 or None
                accuracy = self._evaluate(self.config.test_tasks, stopped, width)
                before = None
                if copies:
                    tasks, general = self.config.test_tasks, copies.general
                    before = self._evaluate(tasks, stopped, width, general)
            summary = summarise(
                self.config, self.settings, self.parts, accuracy, self.state, before
            )
            if self.group.leads:
                write_json(self.folder / "summary.json", summary)
                summary = read_json(self.folder / "summary.json")  # exactly what a reader gets
            return summary
        except FOREIGN as error:
            if not self.resumed_at:
                raise
            why = " ".join([f"{type(error).__name__}:", *str(error).splitlines()[:1]])
            raise MetadriftError(
                f"{self.folder} cannot go on from its checkpoint of step {self.resumed_at}: {why}. "
                "Was it changed by hand? --debug shows where it failed"
            ) from error
        finally:
            self.progress.close()
            for callback in self.callbacks:
                callback.on_end(summary)

    def _train(self, stream: Prefetch, stopped: list[int]) -> None:
        ends = self.parts.truth.ends if self.parts.truth and self.config.stage_tasks else []
        last_saved = self.state.step
        while self.state.step < len(self.parts.stream):
            self._one_step(stream)
            if self.state.step in ends:
                self._stage()
            if self.config.variance_every and self.state.step % self.config.variance_every == 0:
                self._measure_variance()
            self._stop_if_asked(self._agreed(stopped))
            if self.state.step - last_saved >= self.config.checkpoint_every:
                self.saver.save(self.state)
                last_saved = self.state.step

    def _agreed(self, stopped: list[int]) -> list[int]:
        """The signals to handle now. Several processes agree on them when a line is due."""
        if self.group.size == 1:
            return stopped
        if self.state.step % self.config.log_every:
            return []
        number = int(self.group.gather([stopped[0] if stopped else 0]).max())
        return [number] if number else []

    def _stop_if_asked(self, stopped: list[int]) -> None:
        if stopped:
            path = self.saver.save(self.state)
            raise InterruptedRunError(
                f"stopped at step {self.state.step}; the checkpoint is {path}. "
                f"`metadrift resume {self.folder}` goes on.",
                stopped[0],
            )

    def _one_step(self, stream: Prefetch) -> None:
        begin = time.perf_counter()
        tasks = next(stream)
        got = time.perf_counter()
        record, skipped = None, False
        try:
            with self.guard:
                record = self.parts.method.step(tasks)
            if not isinstance(record, StepRecord):
                raise UsageError(
                    f"{type(self.parts.method).__name__}.step must return a StepRecord, such as "
                    f"outcome.record(), not {type(record).__name__}"
                )
            self.parts.method.after_step()
        except NonFiniteError as error:
            self._non_finite(error)
            skipped = True
            if record is None:  # otherwise only weights overflowed: detector and memory counted it
                self.parts.clock.leave_out(self.state.step)
        self.state.seconds["data"] += got - begin
        self.state.seconds["train"] += time.perf_counter() - begin
        self.state.step += 1
        if record is not None:
            self._note(record)
        if record is None or skipped:
            return
        line = self.recorder.step(self.state.step - 1, record, **self._memory(self.state.step))
        if line:
            self.progress.update(line)
            for callback in self.callbacks:
                callback.on_step(line)

    def _note(self, record: StepRecord) -> None:
        """A change that the method reports, or a return, dated by the stream's steps."""
        date, change = self.parts.clock.stream_step, record.change
        for move in record.moves:
            if move.returned:
                place = {"label": move.label, "since": date(move.since)}
                self.recorder.event(self.state.step, "returned", **place)
        if change is not None:
            at_step, started_at = date(change.at_step), date(change.started_at)
            self.state.reports.append(at_step)
            dated = replace(change, at_step=at_step, started_at=started_at)
            label = record.latent_domain
            self.recorder.event(self.state.step, "change", **asdict(dated), label=label)

    def _memory(self, step: int) -> dict[str, Any]:
        """The memory's contents and draw probabilities, for a line of metrics."""
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
            self.state.skipped += 1
            self.recorder.event(self.state.step, "skipped", reason=str(error))
            return
        kept = checkpoints(self.folder / "checkpoints")
        last = f"the last good checkpoint is {kept[-1]}" if kept else "there is no checkpoint yet"
        refused = MetadriftError(
            f"{error} at step {self.state.step} with learning rate {self.config.lr:g}; the weights "
            f"were not changed and {last}. A lower --lr, or --on-nan skip, may help."
        )
        refused.shared = True  # the processes check the mean over all of them
        raise refused from None

    def _measure_variance(self) -> None:
        if not isinstance(self.parts.method, ReplayingMethod):
            return
        rng = generator(self.config.seed, Purpose.VARIANCE, self.state.step)
        found = replay_variance(self.parts.method, rng)
        if found is not None:
            self.state.variance.append(found.ratio)
            self.recorder.event(self.state.step, "variance", **asdict(found), ratio=found.ratio)

    def _stage(self) -> None:
        accuracy = self._evaluate(min(self.config.stage_tasks, self.config.test_tasks))
        self.state.stages.append({name: scored.mean for name, scored in accuracy.items()})
        stage, learner = self.state.stages[-1], self.parts.method.evaluated
        measured: dict[str, float] = {}
        for callback in self.callbacks:
            measured |= callback.on_stage(self.state.step, stage, learner) or {}
        more = {"measured": measured} if measured else {}
        self.recorder.event(self.state.step, "evaluation", accuracy=stage, **more)
        mean, _ = overall(accuracy)
        self.progress.say(f"step {self.state.step}: mean accuracy of all domains {100 * mean:.1f}%")

    def _rehearse(self, stopped: list[int]) -> Specialists | None:
        """Train the copies for the final evaluation, unless the checkpoint has them."""
        method, steps = self.parts.method, round(self.config.rehearse * len(self.parts.stream))
        if not isinstance(method, ReplayingMethod) or not steps:
            return None
        if method.specialists:
            return method.specialists
        done = 0

        def trained(more: int) -> None:
            nonlocal done
            done += more
            self.progress.rehearsed(done, steps)
            self._stop_if_asked(self._agreed(stopped))

        copies = method.rehearse(steps, trained)
        count = len(copies.copies) if copies else 0
        self.recorder.event(self.state.step, "rehearsed", steps=done, copies=count)
        self.saver.save(self.state, again=True)
        return copies

    def _evaluate(
        self,
        tasks: int,
        stopped: list[int] | None = None,
        half_width: float | None = None,
        learner: MetaLearner | None = None,
    ) -> dict[str, DomainAccuracy]:
        done, mine = 0, len(self.parts.tests) * tasks // self.group.size

        def scored(more: int) -> None:
            nonlocal done
            done += more
            self.progress.evaluated(done, mine)
            self._stop_if_asked(stopped or [])

        return evaluate(
            learner or self.parts.method.evaluated,
            self.parts.tests,
            tasks=tasks,
            half_width=half_width,
            seed=self.config.seed,
            progress=scored,
            group=self.group,
        )
