"""The processes that train one learner together, and what they agree on.

A method asks its group for means. The code is the same for one process and for many. All processes
call the same exchanges in the same order. If one process is lost, all of them end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from metadrift.distributed.heartbeats import Heartbeats
from metadrift.errors import LostProcessError, UsageError
from metadrift.randomness import Purpose, generator

TIMEOUT = timedelta(seconds=15)  # an exchange within a step that takes longer has lost a process
_JOINING = timedelta(minutes=5)  # until all processes have loaded their libraries and met
_PATIENCE = timedelta(minutes=30)  # for what may differ: start, checkpoints, evaluation


class Group:
    """A single process: every exchange returns its input unchanged.

    Examples
    --------
    >>> alone = Group()
    >>> alone.mean([1.5, 2.0]).tolist(), alone.share(4), alone.leads
    ([1.5, 2.0], slice(0, 4, None), True)
    """

    rank = 0
    size = 1
    seconds = 0.0
    """Time spent in exchanges, including waiting for slower processes."""

    @property
    def leads(self) -> bool:
        """True in the process that writes the run's folder."""
        return self.rank == 0

    def share(self, n: int) -> slice:
        """This process's part of n items. n must be a multiple of the number of processes."""
        each = n // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def own(self, rng: np.random.Generator) -> np.random.Generator:
        """A generator for this process alone, derived from one that all processes share."""
        if self.size == 1:
            return rng
        return generator(int(rng.integers(2**63)), Purpose.PROCESS, self.rank)

    def mean_(self, tensors: Sequence[Tensor]) -> None:
        """Put the mean over processes into every tensor: one exchange for all of them."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
        self.sum_(flat)
        flat /= self.size
        with torch.no_grad():
            parts = torch.split(flat, [tensor.numel() for tensor in tensors])
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.copy_(part.view_as(tensor))

    def mean(self, values: ArrayLike) -> NDArray[np.float64]:
        """The mean over processes of each number."""
        return self.sum(values) / self.size

    def sum(self, values: ArrayLike) -> NDArray[np.float64]:
        """The sum over processes of each number."""
        total = np.array(values, np.float64)
        self.sum_(torch.from_numpy(total))
        return total

    def gather(self, rows: ArrayLike) -> NDArray[np.float64]:
        """The rows [n, ...] of all processes in the order of their ranks: [size*n, ...]."""
        mine = np.asarray(rows, np.float64)
        every = np.zeros((self.size, *mine.shape))
        every[self.rank] = mine
        return self.sum(every).reshape(-1, *mine.shape[1:])

    def tell(self, numbers: Sequence[int]) -> list[int]:
        """Process 0's numbers, in every process."""
        count = int(self.gather([len(numbers)])[0])
        if count == 0:
            return []
        mine = [*numbers, *[0] * count][:count]
        return [int(number) for number in self.gather([mine])[0]]

    def wait(self) -> None:
        """Wait for all processes, even if one of them reads or writes for minutes."""

    def sum_(self, tensor: Tensor) -> None:
        """Sum over processes, in place. All other exchanges use this one."""

    def close(self) -> None:
        """Leave the group at the end."""


class Processes(Group):
    """The processes that torchrun started: gloo between CPUs, nccl between GPUs."""

    def __init__(self, timeout: timedelta = TIMEOUT) -> None:
        cuda = torch.cuda.is_available()
        if cuda:
            self._choose_gpu()
        store, self.rank, self.size = next(rendezvous("env://", timeout=_JOINING))
        with self._losing_others():
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if cuda else "gloo",
                store=PrefixStore("group", store),
                rank=self.rank,
                world_size=self.size,
                timeout=_JOINING,
            )
            self._patient = dist.new_group(timeout=_PATIENCE)
            self._quick = dist.new_group(timeout=timeout)
        self._beats = Heartbeats(store, self.rank, self.size)

    def wait(self) -> None:
        """Wait for all processes, as long as every one of them gives signs of life."""
        with self._losing_others():
            waiting = dist.all_reduce(torch.zeros(1), group=self._patient, async_op=True)
            while not waiting.is_completed():
                self._beats.check()
                time.sleep(0.01)
            waiting.wait()

    def sum_(self, tensor: Tensor) -> None:
        begin = time.perf_counter()
        # Neither backend reaches mps: copy such tensors to the CPU first.
        buffer = tensor if tensor.is_cuda else tensor.cpu()
        with self._losing_others():
            dist.all_reduce(buffer, group=self._quick)
        if buffer is not tensor:
            tensor.copy_(buffer)
        self.seconds += time.perf_counter() - begin

    def close(self) -> None:
        self._beats.close()
        dist.destroy_process_group()

    @contextmanager
    def _losing_others(self) -> Iterator[None]:
        """Turn an error of an exchange into a LostProcessError."""
        try:
            yield
        except RuntimeError as error:
            raise LostProcessError(
                f"process {self.rank} of {self.size} (they count from 0) has lost the others: "
                f"{str(error).splitlines()[0]}. The run ends in all processes; `metadrift resume` "
                "goes on from its last checkpoint, on as many processes as you like."
            ) from None

    @staticmethod
    def _choose_gpu() -> None:
        place, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if place >= there:
            raise UsageError(
                f"this machine has {there} GPUs and was given more processes; start torchrun with "
                f"--nproc-per-node {there}, or with CUDA_VISIBLE_DEVICES= to use the CPU"
            )
        torch.cuda.set_device(place)


@contextmanager
def joined() -> Iterator[Group]:
    """The group of the processes that torchrun started; this process alone without torchrun."""
    many = "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ["WORLD_SIZE"]) > 1
    group = Processes() if many else Group()
    yield group
    group.close()  # not after an error: the others may be gone, and closing would wait for them
