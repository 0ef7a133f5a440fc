"""Combine tasks of a step into wider tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def put_together(owners: Sequence[int], most: int) -> list[int] | None:
    """A group number per task: up to `most` tasks of each owner. None if no tasks are combined.

    Examples
    --------
    >>> put_together([4, 4, 9, 4, 4], most=3)
    [0, 0, 1, 0, 2]
    """
    if most < 2:
        return None
    seen: Counter[int] = Counter()
    numbers: dict[tuple[int, int], int] = {}
    groups = []
    for owner in owners:
        key = owner, seen[owner] // most
        groups.append(numbers.setdefault(key, len(numbers)))
        seen[owner] += 1
    return groups
