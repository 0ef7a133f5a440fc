"""Storage for batches of tasks: one preallocated block of bytes, in memory or in a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import ExampleKind
from metadrift.storage.files import open_without_links
from metadrift.tasks import TaskBatch, TaskGeometry

_FLOAT16_MAX = float(np.finfo(np.float16).max)


class Buffer:
    """Storage only: slots that each hold one arriving batch of T tasks.

    Slots are filled in order (0, 1, 2, ...). After that they are overwritten, never emptied.

    Parameters
    ----------
    capacity
        The number of batches it can hold.
    tasks, geometry, kind
        The shape of a batch: [tasks, ways*(shots+queries), *kind.shape], of the type of the kind.
    file
        Keep the examples in this memory-mapped file instead of in memory. It is overwritten.
    logits
        Also keep the query logits of each batch, float16 [tasks, ways*queries, ways], for dark
        replay.

    Examples
    --------
    >>> from metadrift.examples import Pictures
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> buffer = Buffer(3, 2, geometry, Pictures(8, channels=1))
    >>> buffer.nbytes == 3 * 2 * 4 * 8 * 8
    True
    >>> buffer.put(0, TaskBatch(torch.full((2, 4, 1, 8, 8), 7, dtype=torch.uint8), geometry))
    >>> buffer.filled, len(buffer.get([0, 0]))
    (1, 4)
    """

    def __init__(
        self,
        capacity: int,
        tasks: int,
        geometry: TaskGeometry,
        kind: ExampleKind,
        file: Path | None = None,
        logits: bool = False,
    ) -> None:
        if capacity < 1 or tasks < 1:
            raise UsageError(
                f"a memory needs room for at least 1 batch of at least 1 task, "
                f"not capacity={capacity}, tasks={tasks}"
            )
        self.capacity, self.tasks, self.geometry = capacity, tasks, geometry
        self.kind = kind
        self.filled = 0
        shape = (capacity, tasks, geometry.images_per_task, *kind.shape)
        self._examples = _allocate(shape, np.dtype(kind.dtype), file)
        self._logits: np.ndarray | None = None
        self._has_logits = np.zeros(capacity, np.bool_)
        if logits:
            outputs = (capacity, tasks, geometry.ways * geometry.queries, geometry.ways)
            self._logits = np.zeros(outputs, np.float16)

    @property
    def nbytes(self) -> int:
        """capacity x bytes of a batch, known before the first batch arrives."""
        return self._examples.nbytes + (0 if self._logits is None else self._logits.nbytes)

    def put(self, slot: int, tasks: TaskBatch, logits: Tensor | None = None) -> None:
        """Copy a batch (and its query logits [T, ways*queries, ways]) into a slot."""
        if not 0 <= slot <= min(self.filled, self.capacity - 1):
            raise UsageError(f"slot {slot} is neither filled nor the next free one ({self.filled})")
        examples = tasks.examples.cpu().numpy()
        fits = examples.shape == self._examples.shape[1:] and examples.dtype == self._examples.dtype
        if tasks.geometry != self.geometry or not fits:
            raise MetadriftError(
                f"the memory holds batches {_said(self._examples[0])} of {self.geometry}, "
                f"not {_said(examples)} of {tasks.geometry}"
            )
        self._examples[slot] = examples
        if self._logits is not None:
            self._has_logits[slot] = logits is not None
            if logits is not None:
                # No prediction depends on a row's mean. Without it float16 is precise enough.
                centred = logits.detach().float() - logits.detach().float().mean(-1, keepdim=True)
                self._logits[slot] = centred.clamp(-_FLOAT16_MAX, _FLOAT16_MAX).cpu().numpy()
        self.filled = max(self.filled, slot + 1)

    def get(self, slots: Sequence[int]) -> TaskBatch:
        """The tasks of several slots in one batch [len(slots)*T], copied in one gather."""
        index = self._index(slots)
        block = np.take(self._examples, index, axis=0)
        return TaskBatch(
            torch.from_numpy(block.reshape(-1, *self._examples.shape[2:])), self.geometry
        )

    def get_logits(self, slots: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The logits of several slots: float32 [len(slots)*T, ways*queries, ways], each row minus
        its mean, and whether a task has logits: bool [len(slots)*T]."""
        if self._logits is None:
            raise UsageError("this memory keeps no logits; make its Buffer with logits=True")
        index = self._index(slots)
        kept = np.take(self._logits, index, axis=0).astype(np.float32)
        known = np.repeat(self._has_logits[index], self.tasks)
        return torch.from_numpy(kept.reshape(-1, *kept.shape[2:])), torch.from_numpy(known)

    def state_dict(self) -> dict[str, Any]:
        """A copy of the filled slots."""
        n = self.filled
        return {
            "images": np.array(self._examples[:n]),  # its name in checkpoints, also of vectors
            "logits": None if self._logits is None else self._logits[:n].copy(),
            "has_logits": self._has_logits[:n].copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        examples, logits = np.asarray(state["images"]), state["logits"]
        n, room = len(examples), self._examples
        fits = examples.shape[1:] == room.shape[1:] and examples.dtype == room.dtype
        if n > self.capacity or not fits:
            raise MetadriftError(
                f"the saved memory holds {n} batches {examples.dtype} {list(examples.shape[1:])}; "
                f"this one has room for {self.capacity} of {_said(room[0])}"
            )
        if (logits is None) != (self._logits is None):
            raise MetadriftError("the saved memory and this one differ in whether logits are kept")
        self._examples[:n] = examples
        self._has_logits[:] = False
        self._has_logits[:n] = np.asarray(state["has_logits"])
        if self._logits is not None:
            self._logits[:n] = np.asarray(logits)
        self.filled = n

    def _index(self, slots: Sequence[int]) -> np.ndarray:
        index = np.asarray(slots, np.int64)
        if index.size == 0 or index.min() < 0 or index.max() >= self.filled:
            raise UsageError(
                f"slots {list(slots)} were asked for; slots 0 to {self.filled - 1} are filled"
            )
        return index


def _allocate(shape: tuple[int, ...], dtype: np.dtype[Any], file: Path | None) -> np.ndarray:
    try:
        if file is None:
            return np.zeros(shape, dtype)
        file.parent.mkdir(parents=True, exist_ok=True)
        with open_without_links(file, "w+b") as opened:
            return np.memmap(opened, dtype, mode="w+", shape=shape)
    except (MemoryError, OSError, ValueError) as error:  # numpy refuses absurd sizes as values
        size = math.prod(shape) * dtype.itemsize / 1e9
        where = (
            "in memory; keep it in a file or lower its capacity" if file is None else f"at {file}"
        )
        raise MetadriftError(
            f"there is no room for {shape[0]} batches of tasks ({size:.1f} GB) {where}: {error}"
        ) from None


def _said(batch: np.ndarray) -> str:
    return f"{batch.dtype} {list(batch.shape)}"
