"""Learning from tasks as they arrive in a live program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten

import torch
from torch import Tensor, nn

from metadrift import registry
from metadrift.detection import ChangeDetector
from metadrift.detection.features import FeatureExtractor
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import ExampleKind, Pictures, as_kind, kind_of_table
from metadrift.learners import MetaLearner, pick_device
from metadrift.learners.precision import PrecisionChoice, resolve_precision
from metadrift.live import vectors
from metadrift.live.classification import Classification, classify
from metadrift.live.pictures import Queries, Support
from metadrift.memory import Buffer, Memory
from metadrift.methods.base import Method, StepRecord
from metadrift.methods.make import find_method
from metadrift.methods.optimisation import make_optimizer
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import ReplaySampler
from metadrift.runs.build import build_learner, build_method
from metadrift.runs.checkpoint import (
    DAMAGE,
    checkpoints,
    load_checkpoint,
    remove_leftovers,
    save_checkpoint,
)
from metadrift.runs.config import SHORT, STREAMS, RunConfig, from_toml, to_toml
from metadrift.runs.plugins import HandedIn
from metadrift.tasks import TaskBatch, TaskGeometry

MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class ContinualMetaLearner:
    """A method and a learner that take one batch of tasks after the other.

    It is not told where tasks come from or when that changes. Of the past it keeps a memory of a
    fixed size.

    Parameters
    ----------
    method
        `m2d3-pets`, `reservoir`, `sequential` and so on, as for `metadrift run`, or a custom class
        of method.
    learner
        `protonet`, `anil`, `maml` or `ridge`, or a custom MetaLearner.
    geometry
        Ways, shots and queries of every task.
    image_size, channels
        Of the tasks' pictures: [T, ways*(shots+queries), channels, image_size, image_size].
    example
        What the tasks' examples are where they are not pictures: the shape of float32 arrays, such
        as (512,), or `Arrays((512,), "float16")`.
    tasks_per_step
        T, the tasks of each batch.
    memory
        How many batches memory holds.
    backbone
        The network of the learner: a name as for `metadrift run`, or a custom module, [B, 3, H, W]
        (or [B, *example]) to [B, D]. The learner works on a copy, `model.learner.backbone`.
    optimizer
        Makes the optimiser from the parameters, such as
        `lambda parameters: torch.optim.SGD(parameters, lr=0.1)`; by default `config.optim` with
        `lr`, which is Adam.
    lr, seed, device
        Learning rate of the default optimiser; the seed of all random numbers; where to compute.
    precision
        `float32`, `bf16`, or `auto` for the faster one; see docs/runs.md. By default that of
        `config`, and for a custom learner its own.
    config
        All other settings, as for a run: `RunConfig(detection=..., replay=..., learn=...)`.
    detector, features, sampler
        Other parts of the method, by name or as objects: a ChangeDetector, a FeatureExtractor, a
        ReplaySampler. By default those of `config`.
    memory_rule
        The memory to use instead of the method's own: a name, or a class of Memory.

    Examples
    --------
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=2)
    >>> model = ContinualMetaLearner(
    ...     "reservoir", "protonet", geometry=geometry, image_size=8, channels=1, memory=4
    ... )
    >>> tasks = TaskBatch(torch.zeros(1, 6, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> record = model.observe(tasks)
    >>> model.steps, record.admitted, tuple(model.predict(tasks).shape)
    (1, True, (1, 4))
    """

    def __init__(
        self,
        method: str | type[Method] = "m2d3-pets",
        learner: str | MetaLearner = "protonet",
        *,
        geometry: TaskGeometry,
        image_size: int | None = None,
        channels: int = 3,
        example: ExampleKind | Sequence[int] | None = None,
        tasks_per_step: int = 1,
        memory: int = 300,
        backbone: str | nn.Module | None = None,
        optimizer: MakeOptimizer | None = None,
        lr: float = 0.001,
        seed: int = 0,
        device: str = "auto",
        precision: PrecisionChoice | None = None,
        config: RunConfig | None = None,
        detector: str | ChangeDetector | None = None,
        features: str | FeatureExtractor | None = None,
        sampler: str | ReplaySampler | None = None,
        memory_rule: str | type[Memory] | None = None,
    ) -> None:
        if method in STREAMS:
            raise UsageError(
                f"{method} training has all domains at hand, which a live stream has not; "
                "`metadrift run` does it"
            )
        if isinstance(learner, type):
            raise UsageError(
                f"learner= takes a name or an object: give {learner.__name__}(...), not the class"
            )
        parts = {"detector": detector, "features": features, "memory": memory_rule}
        config = _named(config or RunConfig(), parts | {"sampler": sampler})
        if (image_size is None) == (example is None):
            raise UsageError("say what the examples are: either image_size= or example=")
        if method == "balanced-oracle" or config.labels == "oracle":
            raise UsageError("an oracle needs the true domains, which a live stream does not have")
        if config.memory.mapped:
            raise UsageError("memory.mapped is for runs, which have a folder to keep the file in")
        self.config = replace(
            config,
            method=kind_name(method),
            learner=config.learner if isinstance(learner, MetaLearner) else learner,
            ways=geometry.ways,
            shots=geometry.shots,
            queries=geometry.queries,
            lr=lr,
            seed=seed,
            memory=replace(config.memory, capacity=memory),
        )
        self.geometry, self.tasks_per_step = geometry, tasks_per_step
        self.example = Pictures(image_size or 0, channels) if example is None else as_kind(example)
        if isinstance(learner, MetaLearner) and backbone is not None:
            raise UsageError("a custom learner has its backbone already")
        if isinstance(learner, MetaLearner):
            made, precision = learner, precision or learner.precision
        else:
            plain = replace(self.config, precision="float32")
            made = build_learner(plain, self.example, backbone)
        self.learner: MetaLearner = made.to(pick_device(device))
        choice = precision or config.precision
        self.learner.precision, _ = resolve_precision(choice, self.learner, geometry.ways)
        self.config = replace(self.config, precision=self.learner.precision)
        if not self.learner.example.holds(self.example):
            raise UsageError(f"the learner was made for {self.learner.example}, not {self.example}")
        parameters = self.learner.parameters()
        self.optimizer = (
            make_optimizer(self.config.optim, lr, parameters)
            if optimizer is None
            else optimizer(parameters)
        )
        buffer = None
        kind = find_method(method)
        if issubclass(kind, ReplayingMethod):
            dark = config.replay.dark > 0
            buffer = Buffer(memory, tasks_per_step, geometry, self.example, logits=dark)
        objects = (detector, features, memory_rule, sampler)
        given = HandedIn(kind, *(None if isinstance(part, str) else part for part in objects))  # type: ignore[arg-type]
        self.method: Method = build_method(
            self.config, self.learner, buffer, self.example, optimizer=self.optimizer, given=given
        )
        self.steps = 0

    def observe(self, tasks: TaskBatch) -> StepRecord:
        """Learn from the tasks that have arrived: one training step.

        A loss or a gradient that is not finite raises NonFiniteError before it reaches the weights.
        """
        _refuse_other_than_tasks(tasks)
        wanted = self.example.blank(0, self.geometry.images_per_task)
        shape, found = [self.tasks_per_step, *wanted.shape[1:]], tasks.examples
        fits = list(found.shape) == shape and found.dtype == wanted.dtype
        if tasks.geometry != self.geometry or not fits:
            raise MetadriftError(
                f"step {self.steps} brought examples {list(found.shape)} ({found.dtype}) of "
                f"{tasks.geometry}; this learner was made for {shape} ({wanted.dtype}) of "
                f"{self.geometry}"
            )
        record = self.method.step(tasks)
        self.method.after_step()
        self.steps += 1
        return record

    def rehearse(self, steps: int) -> int:
        """Train copies of the learner on memory alone, `steps` in all; returns how many copies.

        Predictions use them from now on: with m2d3-pets a copy for each latent domain, chosen by
        the support examples. `observe` goes on with the learner itself and leaves the copies as
        they are. Call this again to renew them; 0 steps drop them.
        """
        if not isinstance(self.method, ReplayingMethod):
            raise UsageError(f"{self.config.method} has no memory to rehearse")
        copies = self.method.rehearse(steps)
        return len(copies.copies) if copies else 0

    def predict(self, tasks: TaskBatch) -> Tensor:
        """The class (0 to ways - 1) of every query: int64 [T, ways*queries]."""
        _refuse_other_than_tasks(tasks)
        tasks = tasks.to(self.method.device)
        logits = self.method.evaluated.predict(tasks.support, tasks.support_labels, tasks.query)
        return logits.argmax(-1).cpu()

    def classify(
        self,
        support: Support | vectors.Support,
        query: Queries | vectors.Queries,
        *,
        together: bool = False,
    ) -> Classification:
        """Classify pictures or vectors from a few of each class; see `TrainedModel.classify`."""
        return classify(self.method.evaluated, self.example, support, query, together=together)

    def save(self, path: str | Path) -> Path:
        """Write everything that the next steps depend on into the folder `path`.

        Safetensors and JSON, completely or not at all. Then the previous save is removed.
        """
        state = {
            "kind": _KIND,
            "config": to_toml(self.config),
            "example": self.example.as_table(),
            "tasks_per_step": self.tasks_per_step,
            "steps": self.steps,
            "method": self.method.state_dict(),
        }
        remove_leftovers(Path(path))
        save_checkpoint(Path(path), self.steps, state, keep=1)
        return Path(path)

    @classmethod
    def from_run(
        cls,
        run: str | Path,
        *,
        checkpoint: int | None = None,
        method: type[Method] | None = None,
        backbone: str | nn.Module | None = None,
        device: str = "auto",
    ) -> ContinualMetaLearner:
        """Continue a run of the command line in this program: weights, memory, detector, optimiser.

        It starts from the run's last checkpoint, or from that of a given step. The next batch has
        as many tasks as a step of the run. A learning rate that has fallen to 0 stays there.

        Pass a custom method or backbone of the run again. Allow your other code with
        `metadrift.registry.allow`.
        """
        from metadrift.live.model import run_state, warn_of_changed_code

        path, config, benchmark, example, state = run_state(Path(run), checkpoint)
        try:
            model = cls(
                config.method if method is None else method,
                config.learner,
                geometry=TaskGeometry(config.ways, config.shots, config.queries),
                example=example,
                tasks_per_step=benchmark.tasks_per_step,
                memory=config.memory.capacity or benchmark.memory,
                backbone=backbone,
                lr=config.lr,
                seed=config.seed,
                device=device,
                config=config,
            )
            model.method.load_state_dict(state["method"])
            model.steps = int(state["step"])
            warn_of_changed_code(path, state)
        except DAMAGE as error:
            raise MetadriftError(
                f"{path} does not fit the settings of {run}: "
                f"{shorten(str(error) or type(error).__name__, 160)}"
            ) from None
        return model

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        method: type[Method] | None = None,
        learner: MetaLearner | None = None,
        backbone: str | nn.Module | None = None,
        optimizer: MakeOptimizer | None = None,
        device: str = "auto",
        detector: ChangeDetector | None = None,
        features: FeatureExtractor | None = None,
        sampler: ReplaySampler | None = None,
        memory_rule: type[Memory] | None = None,
    ) -> ContinualMetaLearner:
        """Continue where `save` was called, to the same numbers.

        Pass a custom method, learner, backbone, optimiser or other part again, made in the same
        way; its weights and state then come from the file.
        """
        saved = checkpoints(Path(path))
        if not saved:
            raise MetadriftError(f"there is no saved learner in {path}")
        state = load_checkpoint(saved[-1])
        if state.get("kind") != _KIND:
            raise MetadriftError(f"{saved[-1]} was not saved by a ContinualMetaLearner")
        try:
            config = from_toml(state["config"], str(saved[-1]))
            model = cls(
                config.method if method is None else method,
                config.learner if learner is None else learner,
                geometry=TaskGeometry(config.ways, config.shots, config.queries),
                example=kind_of_table(state["example"]),
                tasks_per_step=int(state["tasks_per_step"]),
                memory=config.memory.capacity or 1,
                backbone=backbone,
                optimizer=optimizer,
                lr=config.lr,
                seed=config.seed,
                device=device,
                precision=config.precision,
                config=config,
                detector=detector,
                features=features,
                sampler=sampler,
                memory_rule=memory_rule,
            )
            model.method.load_state_dict(state["method"])
            model.steps = int(state["steps"])
        except DAMAGE as error:
            raise MetadriftError(
                f"{saved[-1]} cannot be loaded: it is damaged, or was saved with another learner, "
                "backbone or optimiser than is given here; load(path, backbone=...) takes a custom "
                f"one again ({shorten(str(error) or type(error).__name__, 160)})"
            ) from None
        return model


def _refuse_other_than_tasks(tasks: TaskBatch) -> None:
    if not isinstance(tasks, TaskBatch):
        raise MetadriftError(
            f"tasks must be a TaskBatch, not a {type(tasks).__name__}; "
            "TaskBatch(images, geometry) makes one of images "
            "[tasks, ways*(shots+queries), channels, height, width]"
        )


def kind_name(part: object) -> str:
    """How a part is called in the settings: a class or an object by its module and name."""
    if isinstance(part, str):
        return part
    kind = part if isinstance(part, type) else type(part)
    return f"{kind.__module__}:{kind.__name__}"


def _named(config: RunConfig, parts: Mapping[str, object]) -> RunConfig:
    """The settings with the names of the parts that are not None."""
    bases = {"detector": ChangeDetector, "features": FeatureExtractor, "sampler": ReplaySampler}
    for short, part in parts.items():
        if part is None:
            continue
        if short in bases and not isinstance(part, str | bases[short]):
            raise UsageError(f"{short} must be a name or a {bases[short].__name__}, not {part!r}")
        if short == "memory" and not isinstance(part, str):
            registry.checked(part, Memory)
        group, name = SHORT[short]
        settings = replace(getattr(config, group), **{name: kind_name(part)})
        config = replace(config, **{group: settings})
    return config


_KIND = "continual-meta-learner"
