"""Rehearsal: after the stream, copies of the learner are trained on memory alone.

Each latent domain has a copy of its own, trained on its stored batches. A method without latent
domains has one copy, trained on all of memory. The learner itself does not change, so the stream
can go on. The copies are for evaluation and predictions.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from metadrift.detection.features import frozen_features
from metadrift.learners import MetaLearner
from metadrift.methods.base import NonFiniteError
from metadrift.methods.config import OptimConfig
from metadrift.methods.optimisation import Schedule
from metadrift.methods.specialists import NearestDomain, Specialists
from metadrift.randomness import Purpose, generator

if TYPE_CHECKING:
    from metadrift.methods.replaying import ReplayingMethod


def rehearse(
    method: ReplayingMethod, steps: int, progress: Callable[[int], None]
) -> Specialists | None:
    """Train the copies for `steps` steps in all, each as many. None if there is no step for each.

    A step trains on as many stored batches as a step of the stream trains on batches in all.
    `progress` is called after every step.
    """
    memory = method.memory
    slots = {label: list(memory.slots_of(label)) for label in sorted(memory.counts())}
    each = steps // max(len(slots), 1)
    if not each or not slots:
        return None
    copies = {
        label: _copy_for(method, label, mine, each, progress) for label, mine in slots.items()
    }
    features = frozen_features(memory.buffer.kind)
    vectors = {
        label: np.stack([features.of(one) for slot in mine for one in _supports(method, slot)])
        for label, mine in slots.items()
    }
    router = NearestDomain.fitted(memory.buffer.kind, vectors, method.group)
    return Specialists(method.evaluated, copies, router)


def _supports(method: ReplayingMethod, slot: int) -> Tensor:
    return method.memory.buffer.get([slot]).support


def _copy_for(
    method: ReplayingMethod,
    label: int,
    slots: Sequence[int],
    steps: int,
    progress: Callable[[int], None],
) -> MetaLearner:
    """A copy of the learner and its optimiser, trained on these slots with a falling rate."""
    one = copy.copy(method)  # its training step, on another learner
    one.learner, one.optimizer = copy.deepcopy((method.learner, method.optimizer))
    one.learner.load_state_dict(method.evaluated.state_dict())  # the averaged weights, if any
    if method.schedule is not None:  # its rate may have fallen to 0
        for settings, rate in zip(one.optimizer.param_groups, method.schedule.highest, strict=True):
            settings["lr"] = rate
    falling = Schedule(one.optimizer, OptimConfig(schedule="linear"), steps)
    seed, n, T = method.fresh_tasks.seed, 1 + method.config.batches, method.memory.buffer.tasks
    rng = generator(seed, Purpose.REHEARSAL, label)
    share = method.group.share(T * method.group.size)  # of the tasks of each batch
    places = [(batch, task) for batch in range(n) for task in range(share.start, share.stop)]
    for step in range(steps):
        drawn = rng.choice(slots, n, replace=len(slots) < n).tolist()
        tasks = method.memory.buffer.get(drawn)
        rngs = [generator(seed, Purpose.REHEARSAL, label, step, *place) for place in places]
        try:
            one.learn(method.fresh_tasks.replayed_by(tasks, rngs), ())
        except NonFiniteError as error:
            raise NonFiniteError(f"{error} in the rehearsal after the stream") from None
        falling.step()
        progress(1)
    return one.learner
