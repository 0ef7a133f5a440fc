"""A run's checkpoints: their content, and how a run restores the newest whole one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metadrift.distributed.group import Group
from metadrift.distributed.shards import my_memory, save_shards
from metadrift.errors import MetadriftError
from metadrift.randomness import Purpose, generator
from metadrift.runs.build import Parts
from metadrift.runs.checkpoint import (
    DAMAGE,
    checkpoints,
    load_checkpoint,
    prune,
    remove_leftovers,
    save_checkpoint,
    steps_of,
)
from metadrift.runs.record import Recorder, versions
from metadrift.runs.resolve import CONFIG, OtherSettingsError, refuse_difference


@dataclass
class RunState:
    """The state of a run, without the state of its method."""

    step: int = 0
    """Steps done."""
    stages: list[dict[str, float]] = field(default_factory=list)
    """Accuracy of every domain after each true segment."""
    reports: list[int] = field(default_factory=list)
    """The steps at which a change was reported."""
    seconds: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "data": 0.0})
    skipped: int = 0
    variance: list[float] = field(default_factory=list)


class Saver:
    """Writes and reads the checkpoints of one run.

    Parameters
    ----------
    folder
        The run's folder.
    keep
        Checkpoints to keep on the disk.
    seed
        The run's seed, used when another number of processes divides the memory.
    group, parts, recorder
        The processes, and the objects whose state a checkpoint holds.
    settings
        Everything that the run's numbers depend on. A checkpoint with other settings is refused.
    """

    def __init__(
        self,
        folder: Path,
        keep: int,
        seed: int,
        group: Group,
        parts: Parts,
        recorder: Recorder,
        settings: dict[str, Any],
    ) -> None:
        self.folder = folder / "checkpoints"
        self.keep, self.seed = keep, seed
        self.group, self.parts, self.recorder = group, parts, recorder
        self.settings = settings
        self._newest: int | None = None  # the step of the newest checkpoint
        self._others: list[str] = []  # versions that differ from those of the checkpoint

    def save(self, state: RunState, again: bool = False) -> Path:
        """Write a checkpoint of this step. Returns its path.

        If there is one already, it stays, or with `again` it is replaced.
        """
        path = self.folder / f"step-{state.step}"
        if self._newest == state.step and not again:  # stopped after the stream, or resumed there
            return path
        method = self.parts.method.state_dict()
        shards = save_shards(self.folder, state.step, method, self.group)
        if self.group.leads:
            self.recorder.event(state.step, "checkpoint")
            self.recorder.flush()
            values = {
                "step": state.step,
                "settings": self.settings,
                "versions": versions(),
                "processes": self.group.size,
                "stages": state.stages,
                "reports": state.reports,
                "seconds": state.seconds | {f"part {k}": v for k, v in self._spent().items()},
                "skipped": state.skipped,
                "clock": self.parts.clock.state_dict(),
                "variance": state.variance,
                "method": method,
                "recorder": self.recorder.state_dict(),
            }
            save_checkpoint(self.folder, state.step, values, keep=self.keep, beside=shards)
        self.group.wait()
        self._newest = state.step
        return path

    def load(self, state: RunState) -> list[str]:
        """Restore the newest whole checkpoint. Returns warnings for the user."""
        if self.group.leads:
            remove_leftovers(self.folder)
        self.group.wait()
        damaged: list[MetadriftError] = []
        for step in reversed(self.group.tell(steps_of(checkpoints(self.folder)))):
            path = self.folder / f"step-{step}"
            error = self._try(path, state)
            self.group.wait()
            if self.group.gather([error is not None]).any():
                unreadable = MetadriftError(f"{path} could not be read by every process")
                damaged.append(error or unreadable)
                continue
            self._newest = step
            if self.group.leads:
                prune(self.folder, self.keep)
            before = f"going on from the one before it, step {step}"
            warned = [f"{error}; {before}" for error in damaged]
            return [*warned, *self._others, *self.recorder.lost]
        if damaged:
            raise damaged[0]
        if self.group.leads:
            self.recorder.start_over()
        return []

    def _try(self, path: Path, state: RunState) -> MetadriftError | None:
        """Restore a checkpoint. Returns the error if it is damaged."""
        try:
            self._restore(path, load_checkpoint(path), state)
        except OtherSettingsError:
            raise  # it is not damaged: an older checkpoint would not fit either
        except MetadriftError as error:
            return error
        except DAMAGE as error:
            why = " ".join(str(error).split())  # torch lists weights line by line
            return MetadriftError(f"{path} does not fit this run: {why}")
        return None

    def _restore(self, path: Path, saved: dict[str, Any], state: RunState) -> None:
        home = path.parent.parent
        way_out = (
            f"put it back in {home / CONFIG}, or start a new run with "
            f"`metadrift run --config {home / CONFIG} --name OTHER`"
        )
        refuse_difference(str(home), saved["settings"], self.settings, way_out)
        step, steps = int(saved["step"]), len(self.parts.stream)
        if not 0 <= step <= steps:
            raise MetadriftError(f"{path} is of step {step}, but the stream has {steps}")
        spent = saved["seconds"]
        parts = {k.removeprefix("part "): v for k, v in spent.items() if k.startswith("part ")}
        processes = int(saved.get("processes", 1))
        if self.parts.buffer and (processes, self.group.size) != (1, 1):
            rng = generator(self.seed, Purpose.RESHARDING, step)
            memory, room = saved["method"]["memory"], self.parts.buffer.capacity
            saved["method"]["memory"] = my_memory(path, memory, processes, self.group, room, rng)
        self.parts.method.load_state_dict(saved["method"])
        self.parts.method.clock.seconds = parts
        self.group.seconds = parts.get("exchange", 0.0)
        self.parts.stream.load_state_dict({"step": step})
        self.parts.clock.load_state_dict(saved["clock"])
        self.recorder.load_state_dict(saved["recorder"])
        self._others = [
            f"{path} was written with {name} {saved['versions'].get(name)}, this is {version}: "
            f"the {'numbers' if name.startswith('plugin ') else 'last digits'} may differ"
            for name, version in versions().items()
            if saved["versions"].get(name) != version
        ]
        state.step, state.stages, state.reports = step, saved["stages"], saved["reports"]
        state.seconds = {key: spent[key] for key in ("train", "data")}
        state.skipped, state.variance = int(saved["skipped"]), saved["variance"]

    def _spent(self) -> dict[str, float]:
        seconds = self.parts.method.clock.seconds
        if self.group.size > 1:
            seconds["exchange"] = self.group.seconds
        return seconds
