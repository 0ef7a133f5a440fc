"""Confirm a suspected change with a permutation test, and estimate where it starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metadrift.detection.mmd import median_bandwidth, rbf
from metadrift.detection.whitening import Whitening

Array = NDArray[np.float64]

_SURE = 8.0
_NOISE = 1e-9  # a statistic this small is rounding


def permutation_p(
    fresh: Array, reference: Array, block: int, permutations: int, rng: np.random.Generator
) -> float:
    """The p-value of "fresh [n, D] and reference [m, D] come from one distribution".

    The statistic is the unbiased MMD^2. Scale and kernel width come from both samples together,
    so every permutation has the same kernel and the level is exact. Vectors are permuted in blocks
    of neighbours: if neighbours are correlated, single vectors would make every test significant.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> same, other = rng.normal(0, 1, (40, 3)), rng.normal(2, 1, (20, 3))
    >>> permutation_p(other, same, 4, 199, rng)
    0.005
    """
    mmd = permuted_mmd(fresh, reference, block, permutations, rng)
    return float((1 + np.sum(mmd[1:] >= mmd[0] - _NOISE)) / (1 + permutations))


def permuted_mmd(
    fresh: Array, reference: Array, block: int, permutations: int, rng: np.random.Generator
) -> Array:
    """MMD^2 of the two samples, and of each permutation of them: [1 + permutations]."""
    n, N = len(fresh), len(fresh) + len(reference)
    k = _kernel(np.concatenate([fresh, reference]))
    np.fill_diagonal(k, 0.0)
    member = np.zeros((permutations + 1, N))
    member[0, :n] = 1.0
    for row in member[1:]:
        row[shuffled(N, n, block, rng)[:n]] = 1.0
    within = ((member @ k) * member).sum(1)
    other = 1.0 - member
    beyond = ((other @ k) * other).sum(1)
    across = k.sum() - within - beyond  # twice the sum over pairs
    m = N - n
    mmd: Array = within / (n * (n - 1)) + beyond / (m * (m - 1)) - across / (n * m)
    return mmd


def best_split(vectors: Array, kernel: Array, latest: int) -> int:
    """The best split of [N, D] into two parts: the start of the second, from 1 to `latest`.

    `kernel` [N, N] is the one in which the old domain's spread was 1; to it is added one scaled
    by all the vectors here, as either alone can be blind: the first to what happens far from the
    old domain, the second to a direction that was silent before.
    """
    return 1 + int(np.argmax(_split_scores(kernel + _kernel(vectors))[:latest]))


def find_split(
    vectors: Array,
    least: tuple[int, int],
    block: int,
    permutations: int,
    rng: np.random.Generator,
) -> tuple[int, float, float] | None:
    """A split of the vectors [N, D] into two domains if it is certain: start, score, threshold.

    The two parts have at least as many vectors as `least` says, and no split that leaves fewer to
    the second is better: a later search can date such a change. Certain means: the
    score is above that of every permutation, and above their mean by 8 standard deviations. No
    later test confirms this split, so a level alone is not enough.
    """
    k = _kernel(vectors)
    allowed = slice(least[0] - 1, max(0, len(k) - least[1]))
    every = _split_scores(k)
    scores, later = every[allowed], every[allowed.stop : -2]
    if not len(scores) or later.max(initial=0.0) > scores.max():
        return None
    best, null = scores.max() - _NOISE, np.empty(permutations)
    for i in range(permutations):
        order = shuffled(len(k), 0, block, rng)
        null[i] = _split_scores(k[np.ix_(order, order)])[allowed].max()
        if null[i] >= best:
            return None  # mostly within a few permutations
    threshold = max(null.max(), null.mean() + _SURE * null.std())
    if best <= threshold:
        return None
    return least[0] + int(np.argmax(scores)), float(best), float(threshold)


def shuffled(N: int, cut: int, block: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """0..N-1 in a random order of blocks; no block reaches across `cut`."""
    edges = [*range(0, cut, block), *range(cut, N, block), N]
    order = rng.permutation(len(edges) - 1)
    return np.concatenate([np.arange(edges[i], edges[i + 1]) for i in order])


def _kernel(vectors: Array) -> Array:
    white = Whitening(vectors)(vectors)
    return rbf(white, median_bandwidth(white))


def _split_scores(k: Array) -> Array:
    """n1 n2 / N * MMD^2 of the parts before and after each split, [N-1]; flat without a change."""
    N = len(k)
    n1 = np.arange(1, N)
    row = 2 * np.tril(k, -1).sum(1) + k.diagonal()  # pairs with earlier ones, twice, and itself
    before = np.cumsum(row)[:-1]
    to_before = np.cumsum(k.sum(1))[:-1]  # rows before the split, all columns
    across = to_before - before
    after = k.sum() - before - 2 * across
    n2 = N - n1
    mmd = before / n1**2 + after / n2**2 - 2 * across / (n1 * n2)
    scores: Array = n1 * n2 / N * mmd
    return scores
