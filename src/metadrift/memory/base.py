"""The base class of all memories: slots with a label and a step, grouped by label."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from metadrift.errors import MetadriftError
from metadrift.memory.arrival import Arrival
from metadrift.memory.buffer import Buffer


class Memory(ABC):
    """A policy for a Buffer: which batches enter, and which ones leave.

    A policy implements one method, `admit`. Grouping slots by label takes O(1) per offer: a label's
    slots are a list, and a leaving slot swaps places with the last one.

    Parameters
    ----------
    buffer
        The storage of the batches.
    rng
        The generator of all random choices. Its state is saved with the memory.

    Attributes
    ----------
    steps
        The number of batches offered. The first one arrives at step 0.
    label, step
        For each slot: its latent domain, and the step it arrived at.
    replaced, refused
        The number of batches that a full memory took in place of another, and that it refused.
    """

    def __init__(self, buffer: Buffer, rng: np.random.Generator) -> None:
        self.buffer = buffer
        self.rng = rng
        self.capacity = buffer.capacity
        self.steps = self.replaced = self.refused = 0
        self.label = np.zeros(self.capacity, np.int64)
        self.step = np.zeros(self.capacity, np.int64)
        self._slots: dict[int, list[int]] = {}
        self._position = np.zeros(self.capacity, np.int64)

    @abstractmethod
    def admit(self, arrival: Arrival) -> int | None:
        """The slot that the arriving batch takes (`len(self)` is the free one), or None."""

    def __len__(self) -> int:
        """The number of stored batches."""
        return self.buffer.filled

    @property
    def full(self) -> bool:
        return len(self) == self.capacity

    def offer(self, arrival: Arrival) -> int | None:
        """Offer the batch that has just arrived. Returns its slot, or None if it was refused."""
        if not (math.isfinite(arrival.importance) and arrival.importance >= 0):
            raise MetadriftError(
                f"the importance of the batch of step {self.steps} is {arrival.importance}; it "
                "must be a finite number of at least 0. Has the learner diverged?"
            )
        slot = self.admit(arrival)
        if slot is None:
            self.refused += 1
        else:
            if slot < len(self):
                self.replaced += 1
                self._leave(slot)
            self.buffer.put(slot, arrival.tasks, arrival.logits)
            self._enter(slot, arrival.label)
            self.step[slot] = self.steps
        self.steps += 1
        return slot

    def observe(self, label: int, importance: float) -> None:  # noqa: B027
        """Receive a new measurement of a stored batch of this cluster. Most policies ignore it."""

    @property
    def acceptance_rate(self) -> float | None:
        """The share of the batches offered to the full memory that it took; None before any."""
        offered = self.replaced + self.refused
        return self.replaced / offered if offered else None

    def relabel(self, since_step: int, label: int) -> int:
        """Give the label to all stored batches that arrived at `since_step` or later.

        A change is detected some steps after it happened. Returns the number of changed labels.
        """
        n = len(self)
        late = np.flatnonzero((self.step[:n] >= since_step) & (self.label[:n] != label))
        for slot in late.tolist():
            self._leave(slot)
            self._enter(slot, label)
        return len(late)

    def counts(self) -> dict[int, int]:
        """label -> stored batches, for every label that has any."""
        return {label: len(slots) for label, slots in self._slots.items()}

    def slots_of(self, label: int) -> Sequence[int]:
        """The slots of one label, in no particular order. Read only."""
        return self._slots.get(label, ())

    def state_dict(self) -> dict[str, Any]:
        n = len(self)
        return {
            "buffer": self.buffer.state_dict(),
            "rng": self.rng.bit_generator.state,
            "steps": self.steps,
            "replaced": self.replaced,
            "refused": self.refused,
            "step": self.step[:n].copy(),
            # Keep the order inside the lists: random picks index into them.
            "cluster_labels": np.array(list(self._slots), np.int64),
            "cluster_sizes": np.array([len(s) for s in self._slots.values()], np.int64),
            "cluster_slots": np.array([i for s in self._slots.values() for i in s], np.int64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.buffer.load_state_dict(state["buffer"])
        self.rng.bit_generator.state = state["rng"]
        self.steps = int(state["steps"])
        self.replaced, self.refused = int(state["replaced"]), int(state["refused"])
        n = len(self)
        self.step[:n] = np.asarray(state["step"])
        slots = iter(np.asarray(state["cluster_slots"]).tolist())
        labels = np.asarray(state["cluster_labels"]).tolist()
        sizes = np.asarray(state["cluster_sizes"]).tolist()
        self._slots = {}
        for label, size in zip(labels, sizes, strict=True):
            for _ in range(size):
                self._enter(next(slots), label)

    def _random_slot_of(self, label: int) -> int:
        slots = self._slots[label]
        return slots[int(self.rng.integers(len(slots)))]

    def _enter(self, slot: int, label: int) -> None:
        slots = self._slots.setdefault(label, [])
        self._position[slot] = len(slots)
        slots.append(slot)
        self.label[slot] = label

    def _leave(self, slot: int) -> None:
        label = int(self.label[slot])
        slots = self._slots[label]
        last = slots.pop()
        if last != slot:
            place = int(self._position[slot])
            slots[place] = last
            self._position[last] = place
        if not slots:
            del self._slots[label]
