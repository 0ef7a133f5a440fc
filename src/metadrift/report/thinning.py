"""Fewer points for a page, without losing peaks or means."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

Points = tuple[list[float], list[float | None]]


def averaged(x: Sequence[float], y: Sequence[float | None], most: int = 240) -> Points:
    """Means of neighbours.

    Examples
    --------
    >>> averaged([1, 2, 3, 4], [1.0, 3.0, None, 5.0], most=2)
    ([2, 4], [2.0, 5.0])
    """
    size = -(-len(x) // most) or 1
    places = range(0, len(x), size)
    ends = [x[min(at + size, len(x)) - 1] for at in places]
    parts = [[v for v in y[at : at + size] if v is not None] for at in places]
    return ends, [fmean(part) if part else None for part in parts]


def peaks_kept(x: Sequence[float], y: Sequence[float | None], most: int = 480) -> Points:
    """The lowest and the highest of neighbours, so that short peaks keep their height.

    Examples
    --------
    >>> peaks_kept(list(range(8)), [0, 0, 9, 0, 1, 0, 0, 0], most=4)
    ([0, 2, 4, 5], [0, 9, 1, 0])
    """
    size = -(-2 * len(x) // most) or 1
    if size <= 2:
        return list(x), list(y)
    keep: set[int] = set()
    for at in range(0, len(x), size):
        known = [i for i in range(at, min(at + size, len(x))) if y[i] is not None]
        if known:
            keep |= {min(known, key=lambda i: y[i] or 0.0), max(known, key=lambda i: y[i] or 0.0)}
        else:
            keep.add(at)  # a gap stays a gap
    kept = sorted(keep)
    return [x[i] for i in kept], [y[i] for i in kept]
