"""Which class belongs to which split: the official lists, and a rule where there is none.

The lists are facts about published work: `omniglot` (Vinyals et al. 2016), `miniimagenet` (Ravi and
Larochelle 2017), `cub` (Chen et al. 2019), `aircraft` and `quickdraw` (Triantafillou et al. 2020).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from importlib import resources

import numpy as np

from metadrift.data.pack import SPLITS, Split

# Published in docs/data.md: the same names give the same split.
SEED = 2021
USUAL_SHARES = (0.64, 0.16, 0.20)  # those of miniImageNet
WAYS = 5  # a split should be able to give 5-way tasks


def official_splits(dataset: str, names: Iterable[str]) -> tuple[dict[str, Split], list[str]]:
    """The published split of each class, and the names that are not on the published list.

    A name that is not on the list gets its split from a hash of the name, so that it does not
    depend on the other names: about 70 % train, 15 % val, 15 % test.

    Examples
    --------
    >>> official_splits("aircraft", ["F/A-18", "Paper plane"])
    ({'F/A-18': 'train', 'Paper plane': 'test'}, ['Paper plane'])
    """
    published = _published(dataset)
    names = list(names)
    splits = {name: published.get(name) or _by_hash(name) for name in names}
    return splits, [name for name in names if name not in published]


def official_names(dataset: str) -> dict[str, Split]:
    """All names of a published list, with their splits."""
    return dict(_published(dataset))


def random_splits(
    names: Iterable[str], shares: tuple[float, float, float] = USUAL_SHARES, seed: int = SEED
) -> dict[str, Split]:
    """Split classes at random, the same way every time: a seeded shuffle of the sorted names.

    `shares` are the proportions of train, val and test. From 3 classes on each split has one, and
    from 15 on each has enough for a 5-way task.

    Examples
    --------
    >>> splits = random_splits([f"brand {n}" for n in range(182)], (100, 41, 41))
    >>> [sum(s == split for s in splits.values()) for split in SPLITS]
    [100, 41, 41]
    """
    ordered = sorted(set(names))
    sizes = _sizes(len(ordered), np.asarray(shares, float))
    shuffled = np.random.default_rng(seed).permutation(len(ordered))
    which = np.repeat(np.arange(3), sizes)
    return {ordered[i]: SPLITS[which[rank]] for rank, i in enumerate(shuffled)}


def _sizes(n: int, shares: np.ndarray) -> list[int]:
    if n < 3:
        return [min(n, 1), 0, max(n - 1, 0)]
    exact = n * shares / shares.sum()
    sizes = np.floor(exact).astype(int)
    for i in np.argsort(sizes - exact, kind="stable")[: n - sizes.sum()]:
        sizes[i] += 1
    least = WAYS if n >= 3 * WAYS else 1
    while sizes.min() < least:
        sizes[sizes.argmax()] -= 1
        sizes[sizes.argmin()] += 1
    return [int(size) for size in sizes]


def _by_hash(name: str) -> Split:
    place = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
    return "train" if place < 0.70 else "val" if place < 0.85 else "test"


@functools.cache
def _published(dataset: str) -> dict[str, Split]:
    text = resources.files(__package__).joinpath(f"{dataset}.json").read_text(encoding="utf-8")
    lists: dict[Split, list[str]] = json.loads(text)
    return {name: split for split in SPLITS for name in lists[split]}
