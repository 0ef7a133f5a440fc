"""MIR: choose the stored batches that the next step would hurt most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metadrift.memory import Memory


def candidates(memory: Memory, n: int, rng: np.random.Generator) -> list[int]:
    """Up to n distinct random slots, whose loss the method measures before and after its step."""
    stored = len(memory)
    slots: list[int] = rng.choice(stored, min(n, stored), replace=False).tolist() if stored else []
    return slots


def most_interfered(rise: Sequence[float], b: int) -> list[int]:
    """The b candidates with the largest rise in loss, the largest first.

    Examples
    --------
    >>> most_interfered([0.1, 0.5, -0.2, 0.3], b=2)
    [1, 3]
    """
    # A stable sort: of equal rises the earlier candidate wins on every machine.
    order = np.argsort(-np.asarray(rise, np.float64), kind="stable")
    chosen: list[int] = order[:b].tolist()
    return chosen
