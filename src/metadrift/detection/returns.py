"""Which latent domain a step belongs to: a new one after a change, or one that came back."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from metadrift.detection.config import DetectionConfig
from metadrift.detection.confirm import permuted_mmd
from metadrift.detection.detectors import Change
from metadrift.detection.mmd import Array
from metadrift.randomness import Purpose, generator

KEPT = 128  # vectors of each latent domain
_PERMUTATIONS = 100
# In standard deviations of the permutations. Of 39 returns of 13 domains none was above 4, no other
# domain below 9 (20 fresh vectors) or 18 (30); benchmarks/returns.py has the streams.
_NEAR = 6.0
_LEAST = 8  # vectors of a domain that can be compared at all


@dataclass(frozen=True)
class Move:
    """All batches since a step belong to a latent domain, as is known from now on."""

    label: int
    since: int
    returned: bool
    """True if the domain was there before; False if it is new."""


class LatentDomains:
    """Numbers the latent domains, and recognises one that comes back.

    Of each domain a uniform sample of its vectors is kept, of bounded size. After a change the new
    domain is compared with every other one: when 2B of its vectors are there, once more at 4B with
    the newest 2B (where domains blend, the first ones are mixed), or at the next change if that
    comes before. The nearest by MMD^2 decides. The two are one domain if their MMD^2 is at most 6
    standard deviations above that of random divisions of their vectors. So a domain that returns
    gets its old label, and a false alarm is undone: its domain is the one just left.

    Until then the domain has a new label. A label that was given up is not used again.

    Parameters
    ----------
    config
        Uses returns, window, burn_in, seed. With returns "off" every change opens a new domain.

    Examples
    --------
    >>> from metadrift.detection import make_detector
    >>> config = DetectionConfig(window=20, burn_in=60)
    >>> detector, domains = make_detector(config), LatentDomains(config)
    >>> rng = np.random.default_rng(0)
    >>> for step in range(450):
    ...     vector = rng.normal(2 * (150 <= step < 300), 1, 4)
    ...     moves = domains.update(vector, detector.update(vector))
    >>> domains.stays
    [(0, 0), (150, 1), (300, 0)]
    """

    def __init__(self, config: DetectionConfig) -> None:
        config = config.resolved()
        self.recognise = config.returns == "on"
        self.B = config.window
        self.block = max(1, self.B // 5)
        self.label = 0
        self.stays: list[tuple[int, int]] = [(0, 0)]
        """First step and label of each stay, as far as is known by now."""
        self.step = 0
        self._next = 1  # the label of the next new domain
        self._samples = {0: Sample()}
        # Vectors of this stay that a change may still be dated back to.
        self._recent: deque[Array] = deque()
        self._most_recent = max(config.burn_in, 8 * self.B)
        self._checks: list[int] = []  # ages at which this stay is still to be compared
        self._rng = generator(config.seed, Purpose.RETURNS)

    def __len__(self) -> int:
        """How many latent domains there are."""
        return len({label for _, label in self.stays})

    def update(self, vector: Array, change: Change | None) -> list[Move]:
        """Take in the next vector [D] and what the detector said of it; mostly no moves."""
        self.step += 1
        if not self.recognise:
            return [] if change is None else [self._open(change.started_at)]
        self._recent.append(np.array(vector, np.float64))
        if len(self._recent) > self._most_recent:
            self._keep(1)
        if change is not None:
            return self._change(change.started_at)
        if not self._checks or self.step - self.stays[-1][0] < self._checks[0]:
            return []
        self._checks.pop(0)
        return self._compare()

    def _change(self, started_at: int) -> list[Move]:
        """Close the stay, which may be recognised now if it was too short before; open another."""
        fresh = [self._recent.pop() for _ in range(min(len(self._recent), self.step - started_at))]
        open_case = self._checks and len(self._recent) >= self.B
        moves = self._compare() if open_case else []
        self._keep(len(self._recent))
        self._recent.extend(reversed(fresh))
        self._checks = [2 * self.B, 4 * self.B]
        return [*moves, self._open(started_at)]

    def _open(self, started_at: int) -> Move:
        self.label, self._next = self._next, self._next + 1
        self.stays.append((started_at, self.label))
        self._samples[self.label] = Sample()
        return Move(self.label, started_at, returned=False)

    def _compare(self) -> list[Move]:
        """Give this stay the label of the domain that it is, if that was there before."""
        newest = np.stack(list(self._recent)[-2 * self.B :])
        others = {i: s.vectors for i, s in self._samples.items() if i != self.label}
        label = nearest(newest, others, self.block, self._rng)
        if label is None:
            return []
        since, given_up = self.stays.pop()
        if self.stays[-1][1] != label:
            self.stays.append((since, label))
        self._samples[label].merge(self._samples.pop(given_up))
        self._checks.clear()
        self.label = label
        return [Move(label, since, returned=True)]

    def _keep(self, n: int) -> None:
        """Show the oldest n of the recent vectors to the sample of this domain."""
        for _ in range(n):
            self._samples[self.label].offer(self._rng.random(), self._recent.popleft())

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next steps depend on, as copies."""
        return {
            "step": self.step,
            "stays": np.array(self.stays, np.int64),
            "label": self.label,
            "next": self._next,
            "checks": list(self._checks),
            "recent": np.stack(self._recent) if self._recent else None,
            "samples": {str(label): s.state_dict() for label, s in self._samples.items()},
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on, to the bit, where `state_dict` was taken with the same settings."""
        self.step, self.label = int(state["step"]), int(state["label"])
        self.stays = [(int(first), int(label)) for first, label in np.asarray(state["stays"])]
        self._next = int(state["next"])
        self._checks = [int(age) for age in state["checks"]]
        recent = state["recent"]
        self._recent = deque([] if recent is None else np.array(recent, np.float64))
        self._samples = {int(i): Sample.from_state(s) for i, s in state["samples"].items()}
        self._rng.bit_generator.state = state["rng"]


class Sample:
    """A uniform sample of the vectors offered so far, without repetition; at most `KEPT`.

    Each vector has a random key, and those with the smallest keys stay. So the sample of two
    samples together is again uniform.

    Examples
    --------
    >>> sample, rng = Sample(), np.random.default_rng(0)
    >>> for t in range(1000):
    ...     sample.offer(rng.random(), np.array([float(t)]))
    >>> sample.vectors.shape, round(sample.vectors.mean(), -2)
    ((128, 1), np.float64(500.0))
    """

    def __init__(self) -> None:
        self._keys: list[float] = []
        self._vectors: list[Array] = []

    @property
    def vectors(self) -> Array:
        """[n, D]"""
        return np.stack(self._vectors) if self._vectors else np.empty((0, 0))

    def offer(self, key: float, vector: Array) -> None:
        if len(self._keys) == KEPT:
            if key >= self._keys[-1]:
                return
            self._keys.pop()
            self._vectors.pop()
        place = bisect.bisect(self._keys, key)
        self._keys.insert(place, key)
        self._vectors.insert(place, vector)

    def merge(self, other: Sample) -> None:
        """Take in another sample, of other vectors."""
        for key, vector in zip(other._keys, other._vectors, strict=True):
            self.offer(key, vector)

    def state_dict(self) -> dict[str, Any]:
        return {"keys": np.array(self._keys), "vectors": self.vectors}

    @staticmethod
    def from_state(state: dict[str, Any]) -> Sample:
        sample = Sample()
        sample._keys = np.asarray(state["keys"], np.float64).tolist()
        sample._vectors = list(np.array(state["vectors"], np.float64))
        return sample


def nearest(
    fresh: Array, domains: Mapping[int, Array], block: int, rng: np.random.Generator
) -> int | None:
    """The label of the domain whose vectors [m, D] the fresh ones [n, D] belong to, if any."""
    best, label, near = np.inf, None, False
    for i, kept in domains.items():
        if len(kept) < _LEAST:
            continue
        mmd, *permuted = permuted_mmd(fresh, kept, block, _PERMUTATIONS, rng)
        if mmd < best:
            best, label = mmd, i
            near = mmd <= np.mean(permuted) + _NEAR * np.std(permuted)
    return label if near else None
