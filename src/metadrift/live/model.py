"""The trained learner of a run, loaded from its checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

from torch import nn

from metadrift import registry
from metadrift.distributed.group import Group
from metadrift.distributed.shards import my_memory
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import ExampleKind, Pictures, common_kind, kind_of_table
from metadrift.learners import MetaLearner, pick_device
from metadrift.live import vectors
from metadrift.live.classification import Classification, classify
from metadrift.live.learner import ContinualMetaLearner
from metadrift.live.pictures import Queries, Support
from metadrift.methods.average import evaluated_weights
from metadrift.methods.specialists import Specialists
from metadrift.randomness import Purpose, generator
from metadrift.runs.build import build_learner, plan
from metadrift.runs.checkpoint import checkpoints, load_checkpoint, steps_of
from metadrift.runs.config import RunConfig, load_config
from metadrift.storage.reading import read_json
from metadrift.streams import Benchmark, open_packs


@dataclass(frozen=True)
class TrainedModel:
    """A learner with the weights of one checkpoint, and the kind of its examples.

    Parameters
    ----------
    learner
        In evaluation mode.
    example
        What the training examples were; new pictures are resized to it in the same way.
    checkpoint
        Where the weights come from.
    config
        The settings of the run.
    """

    learner: MetaLearner
    example: ExampleKind
    checkpoint: Path
    config: RunConfig

    def classify(
        self,
        support: Support | vectors.Support,
        query: Queries | vectors.Queries,
        *,
        together: bool = False,
    ) -> Classification:
        """Classify pictures or vectors from a few examples per class.

        Parameters
        ----------
        support
            A folder of class folders, or {name: pictures}. A picture is a path, a uint8 array
            [H, W] or [H, W, 1 or 3], or an image of Pillow. Any number of classes from 2, any
            number of pictures each. Of vectors: a file with labels (.npz, .csv or .parquet), or
            {name: arrays [n, *example]}.
        query
            A picture or several; a folder stands for all pictures in it. Of vectors: a file, or an
            array [m, *example].
        together
            Classify all queries at once, as in training tasks, instead of each alone.
        """
        return classify(self.learner, self.example, support, query, together=together)


def load(
    run: str | Path,
    *,
    checkpoint: int | None = None,
    size: int | None = None,
    grey: bool | None = None,
    backbone: str | nn.Module | None = None,
    device: str = "auto",
) -> TrainedModel:
    """The learner of a run: of its last checkpoint, or of a given step.

    Parameters
    ----------
    run
        The run's folder; it need not be finished. Or what a ContinualMetaLearner with a learner of
        this package has saved.
    checkpoint
        The step of a checkpoint that is kept.
    size, grey
        What the training pictures looked like. Only needed when neither the run's summary, nor its
        packs, nor its memory can say it.
    backbone
        A custom backbone of the run, again: a module made in the same way, or its reference. Its
        weights then come from the checkpoint.
    device
        auto, cpu, cuda or mps.
    """
    folder = Path(run)
    if not (folder / "config.toml").is_file() and (saved := checkpoints(folder)):
        live = ContinualMetaLearner.load(folder, backbone=backbone, device=device)
        return TrainedModel(live.method.evaluated.eval(), live.example, saved[-1], live.config)
    with registry.any_name():  # the method is not needed
        config = load_config(_config_of(folder))
    path = _checkpoint_of(folder, checkpoint)
    try:
        saved_state = load_checkpoint(path)
        state = saved_state["method"]
        example = _example_of(folder, config, state, size, grey)
        learner = build_learner(config, example, backbone)
        learner.load_state_dict(evaluated_weights(state))
        if "specialists" in state:
            learner = Specialists.restored(learner, state["specialists"])
        warn_of_changed_code(path, saved_state)
    except (KeyError, RuntimeError) as error:
        what = shorten(str(error), 160)
        raise MetadriftError(f"{path} does not fit the settings of {folder}: {what}") from None
    return TrainedModel(learner.to(pick_device(device)).eval(), example, path, config)


def run_state(
    folder: Path, step: int | None
) -> tuple[Path, RunConfig, Benchmark, ExampleKind, dict[str, Any]]:
    """A run's checkpoint for a live program: its path, settings, benchmark, examples and state."""
    config = load_config(_config_of(folder))
    path = _checkpoint_of(folder, step)
    benchmark, state = plan(config), load_checkpoint(path)
    example = _example_of(folder, config, state["method"], None, None)
    processes = int(state.get("processes", 1))
    if processes > 1 and "memory" in state["method"]:
        rng = generator(config.seed, Purpose.RESHARDING, int(state["step"]))
        room = config.memory.capacity or benchmark.memory
        room *= processes if config.memory.per_process else 1
        memory = my_memory(path, state["method"]["memory"], processes, Group(), room, rng)
        state["method"]["memory"] = memory
        config = replace(config, memory=replace(config.memory, capacity=room, per_process=False))
    optim = config.optim
    if optim.schedule != "constant" and optim.steps is None:
        optim = replace(optim, steps=benchmark.steps)
    memory_settings = replace(config.memory, mapped=False)  # its file belongs to the run
    return path, replace(config, optim=optim, memory=memory_settings), benchmark, example, state


def warn_of_changed_code(path: Path, state: Mapping[str, Any]) -> None:
    """Warn if a custom part is not what it was when the checkpoint was written."""
    before = state.get("versions", {})
    for name, now in registry.loaded().items():
        if before.get(name, now) != now:
            warnings.warn(
                f"{path} was written with {name} {before[name]}, this is {now}: the numbers may "
                "differ",
                stacklevel=3,
            )


def _config_of(folder: Path) -> Path:
    file = folder / "config.toml"
    if (folder / "domains").is_dir():
        homes = ", ".join(str(home) for home in sorted((folder / "domains").iterdir()))
        raise MetadriftError(
            f"{folder} trained a learner for each domain; name one of them: {homes}"
        )
    if not file.is_file():
        runs = sorted(home.parent.name for home in folder.glob("*/config.toml"))
        inside = f"; there are runs in it: {', '.join(runs[:5])}" if runs else ""
        raise MetadriftError(f"{folder} is not a run's folder: it has no config.toml{inside}")
    return file


def _checkpoint_of(folder: Path, step: int | None) -> Path:
    saved = checkpoints(folder / "checkpoints")
    kept = dict(zip(steps_of(saved), saved, strict=True))
    if not kept:
        raise MetadriftError(
            f"{folder} has no checkpoint yet; `metadrift resume {folder}` goes on with the run"
        )
    if step is not None and step not in kept:
        there = ", ".join(map(str, kept))
        raise UsageError(f"{folder} keeps no checkpoint of step {step}; there are those of {there}")
    return kept[max(kept) if step is None else step]


def _example_of(
    folder: Path, config: RunConfig, state: dict[str, Any], size: int | None, grey: bool | None
) -> ExampleKind:
    """From the options, else the summary, else the packs, else the examples in memory."""
    found = _seen_in_summary(folder) or _seen_in_packs(config) or _seen_in_memory(state)
    if found is None and size is None:
        raise MetadriftError(
            f"nothing in {folder} says what its examples were, and its packs are not here; of "
            "pictures give --size (from Python size=), the side in pixels"
        )
    if size is None and grey is None and found is not None:
        return found
    seen = Pictures(size or 1) if found is None else found.as_pictures("--size or --grey")
    return Pictures(size or seen.size, seen.channels if grey is None else 1 if grey else 3)


def _seen_in_summary(folder: Path) -> ExampleKind | None:
    file = folder / "summary.json"
    table = read_json(file).get("example") if file.is_file() else None
    return None if table is None else kind_of_table(table)


def _seen_in_packs(config: RunConfig) -> ExampleKind | None:
    try:
        packs = open_packs(plan(config), config.data, config.size)
        return common_kind({name: pack.kind for name, pack in packs.items()}, "the run")
    except MetadriftError:
        return None


def _seen_in_memory(state: dict[str, Any]) -> ExampleKind | None:
    stored = state.get("memory")
    if stored is None or not len(stored["buffer"]["images"]):
        return None
    examples = stored["buffer"]["images"][0, 0]
    return kind_of_table({"dtype": str(examples.dtype), "shape": examples.shape[1:]})
