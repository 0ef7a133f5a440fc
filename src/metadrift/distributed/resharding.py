"""Fit a saved memory into a smaller capacity."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def slots_to_keep(
    state: dict[str, Any], capacity: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The slots of a memory's state to keep when there is room for `capacity`, in order.

    Every label keeps its share. Its batches are chosen at random, because a random part of a
    uniform sample is a uniform sample. A loss-aware memory keeps its largest keys: with this
    capacity from the start it would hold the same batches.

    Examples
    --------
    >>> state = {"step": np.arange(6), "cluster_slots": np.array([0, 1, 2, 3, 4, 5]),
    ...          "cluster_sizes": np.array([4, 2])}
    >>> [int(s) for s in slots_to_keep(state, 3, np.random.default_rng(0))]
    [0, 2, 5]
    """
    stored = len(state["step"])
    if stored <= capacity:
        return np.arange(stored)
    if "heap_keys" in state:
        largest = np.argsort(-np.asarray(state["heap_keys"]), kind="stable")[:capacity]
        return np.sort(np.asarray(state["heap_slots"])[largest])
    sizes = np.asarray(state["cluster_sizes"])
    ends = np.cumsum(sizes)
    members = np.split(np.asarray(state["cluster_slots"]), ends[:-1])
    # Of `capacity` evenly spaced marks a cluster gets those that fall into it: n_i c/n, rounded.
    marks = (np.arange(capacity) + 0.5) * stored / capacity
    counts = np.bincount(np.searchsorted(ends, marks, side="right"), minlength=len(sizes))
    for i in np.flatnonzero(counts == 0) if len(sizes) <= capacity else ():
        # Keep every label if there is room: take a place from the one most above its share.
        above = np.where(counts > 1, counts - sizes * capacity / stored, -np.inf)
        counts[np.argmax(above)] -= 1
        counts[i] += 1
    kept = [rng.permutation(slots)[:n] for slots, n in zip(members, counts.tolist(), strict=True)]
    return np.sort(np.concatenate(kept))


def with_slots(state: dict[str, Any], kept: NDArray[np.int64]) -> dict[str, Any]:
    """A memory's state with only these slots, renumbered. Its images are unchanged."""
    place = {int(slot): new for new, slot in enumerate(kept)}

    def renumbered(slots: Any) -> NDArray[np.int64]:
        return np.array([place[s] for s in np.asarray(slots).tolist() if s in place], np.int64)

    ends = np.cumsum(np.asarray(state["cluster_sizes"]))
    members = np.split(np.asarray(state["cluster_slots"]), ends[:-1])
    clusters = [
        (label, renumbered(slots))
        for label, slots in zip(np.asarray(state["cluster_labels"]).tolist(), members, strict=True)
    ]
    clusters = [(label, slots) for label, slots in clusters if len(slots)]
    smaller = {
        **state,
        "step": np.asarray(state["step"])[kept],
        "cluster_labels": np.array([label for label, _ in clusters], np.int64),
        "cluster_sizes": np.array([len(slots) for _, slots in clusters], np.int64),
        "cluster_slots": np.concatenate([slots for _, slots in clusters]),
    }
    if "heap_keys" in state:
        slots = np.asarray(state["heap_slots"])
        stays = np.flatnonzero(np.isin(slots, kept))
        order = stays[np.argsort(np.asarray(state["heap_keys"])[stays], kind="stable")]
        # A list in ascending order is a valid heap.
        smaller["heap_keys"] = np.asarray(state["heap_keys"])[order]
        smaller["heap_slots"] = renumbered(slots[order])
    return smaller
