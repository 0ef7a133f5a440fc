"""M2D3: memory management with domain distribution and difficulty awareness."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from metadrift.errors import UsageError
from metadrift.memory.arrival import Arrival
from metadrift.memory.base import Memory
from metadrift.memory.buffer import Buffer
from metadrift.memory.history import LabelHistory
from metadrift.memory.importance import ClusterImportance
from metadrift.memory.shares import LearnedShares

# Quotas are sums of floats: 100 places may become 99.99999999999999.
_ROUNDING = 1e-9


class M2D3Memory(Memory):
    """A memory divided among latent domains, by number and by difficulty.

    Cluster i holds n_i of the n places. N_i of its batches have arrived. I_i is the current
    difficulty of its stored batches (`ClusterImportance`, updated by `observe`). There are L
    clusters: those with a stored batch, and that of the arriving batch.

    Default mode. Cluster i has the quota q_i = n [kappa/L + (1-kappa) I_i^beta / sum_j I_j^beta].
    If the memory is full, a batch of cluster c enters while n_c + 1 <= q_c, and a random batch of
    the cluster most above its quota leaves. Otherwise it replaces a random batch of its own cluster
    with probability n_c/N_c, so the stored batches are a uniform sample of the domain. A cluster
    without a place gets one even if its quota is below 1. A closed cluster never falls below
    min(n_i when it closed, floor(kappa n/L)).

    Learned mode. The same with the quotas q_i = n s_i, where s_i is a `LearnedShares` with
    floor = kappa: more places for a cluster that the learner loses. The guarantee holds as above.

    Paper mode. Algorithm 2 as printed: the batch enters a full memory with probability
    P_in = sigmoid(S_new - S_mem), S_new = (1 - n_c/n) I_t, S_mem = (n_c/n) M_s,
    M_s = sum_i (n_i/n) I_i / (L-1); a random batch of cluster i leaves, drawn by the softmax of
    A_i = -(1 - n_i/n) I_i; both sums over the other clusters. I_i moves at the rate of PETS, so
    that it is the G_i of PETS, as in the paper. Where the paper is silent:

    - *no other cluster* (L <= 1): M_s = 0, and a batch of the current cluster leaves;
    - *an empty cluster* (n_i = 0): counts in L, cannot be drawn;
    - *all other clusters empty*: a batch of the current cluster leaves.

    Parameters
    ----------
    beta
        The weight of difficulty. 0 divides memory equally; with true labels that is the
        class-balanced reservoir.
    kappa
        The part of memory that is divided equally, without regard to difficulty.
    rate
        The rate of the moving averages I_i; by default .02, and .1 in paper mode.

    Examples
    --------
    >>> import torch
    >>> from metadrift.examples import Pictures
    >>> from metadrift.tasks import TaskBatch, TaskGeometry
    >>> geometry = TaskGeometry(ways=2, shots=1, queries=1)
    >>> memory = M2D3Memory(Buffer(6, 1, geometry, Pictures(8, 1)), np.random.default_rng(0))
    >>> batch = TaskBatch(torch.zeros(1, 4, 1, 8, 8, dtype=torch.uint8), geometry)
    >>> for step in range(600):
    ...     slot = memory.offer(Arrival(batch, label=step // 200))
    >>> memory.counts()
    {0: 2, 1: 2, 2: 2}
    """

    def __init__(
        self,
        buffer: Buffer,
        rng: np.random.Generator,
        *,
        mode: Literal["default", "learned", "paper"] = "default",
        beta: float = 0.5,
        kappa: float = 0.5,
        rate: float | None = None,
    ) -> None:
        super().__init__(buffer, rng)
        if mode not in ("default", "learned", "paper"):
            raise UsageError(f"M2D3 has the modes default, learned and paper, not {mode!r}")
        if rate is None:
            rate = 0.1 if mode == "paper" else 0.02
        if not (0 <= kappa <= 1 and beta >= 0 and 0 < rate <= 1):
            raise UsageError(
                f"M2D3 needs kappa in 0..1, beta of at least 0 and rate in 0..1, "
                f"not kappa={kappa}, beta={beta}, rate={rate}"
            )
        self.mode, self.beta, self.kappa = mode, beta, kappa
        self.history = LabelHistory()
        self.importance = ClusterImportance(rate)
        self.shares = LearnedShares(floor=kappa)

    def admit(self, arrival: Arrival) -> int | None:
        label = arrival.label
        self.history.arrive(label)
        if not self.full:
            return len(self)
        if self.mode == "paper":
            return self._admit_paper(label, arrival.importance)
        quotas = self.quotas(label)
        stored = len(self.slots_of(label))
        if stored + 1 <= quotas[label] + _ROUNDING or stored == 0:
            others = (i for i in self._slots if i != label)
            return self._random_slot_of(max(others, key=lambda i: len(self._slots[i]) - quotas[i]))
        if self.rng.random() < stored / self.history.seen[label]:
            return self._random_slot_of(label)
        return None

    def quotas(self, arriving: int) -> dict[int, float]:
        """q_i of every cluster, when a batch of the cluster `arriving` arrives."""
        # A list, not a set: the order of summation must survive a resume.
        labels = list(self._slots) if arriving in self._slots else [*self._slots, arriving]
        if self.mode == "learned":
            shares = self.capacity * self.shares.of(labels)
            return dict(zip(labels, shares.tolist(), strict=True))
        difficulty = self.importance.of(labels) ** self.beta
        total, equal = difficulty.sum(), np.full(len(labels), 1 / len(labels))
        by_difficulty = difficulty / total if total > 0 else equal
        quotas = self.capacity * (self.kappa * equal + (1 - self.kappa) * by_difficulty)
        return dict(zip(labels, quotas.tolist(), strict=True))

    def _admit_paper(self, label: int, importance: float) -> int | None:
        n, stored = self.capacity, len(self.slots_of(label))
        others = [i for i in self._slots if i != label]
        share = np.array([len(self._slots[i]) / n for i in others])
        I_i = self.importance.of(others)
        M_s = float(share @ I_i) / max(len(self.history.seen) - 1, 1)
        S_new = (1 - stored / n) * importance
        S_mem = stored / n * M_s
        # sigmoid(x) = (1 + tanh(x/2)) / 2, which does not overflow
        P_in = (1 + math.tanh((S_new - S_mem) / 2)) / 2
        if self.rng.random() >= P_in:
            return None
        if not others:
            return self._random_slot_of(label)
        A = -(1 - share) * I_i
        P = np.exp(A - A.max())
        return self._random_slot_of(others[int(self.rng.choice(len(others), p=P / P.sum()))])

    def observe(self, label: int, importance: float) -> None:
        self.importance.observe(label, importance)
        if self.mode == "learned":
            self.shares.observe(label, importance)

    def relabel(self, since_step: int, label: int) -> int:
        self.history.relabel(since_step, label)
        return super().relabel(since_step, label)

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "history": self.history.state_dict(),
            "importance": self.importance.state_dict(),
            "shares": self.shares.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.history.load_state_dict(state["history"])
        self.importance.load_state_dict(state["importance"])
        self.shares.load_state_dict(state["shares"])
