"""Forgetting and transfer, from accuracies measured along the stream.

`stages` are evaluations, one after each stay in a domain, each a dict of every domain's accuracy;
`stays` names the domain of each stay. A domain may be visited more than once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metadrift.errors import UsageError

Stage = Mapping[str, float]


def worst_domain(stage: Stage) -> tuple[str, float]:
    """The domain with the lowest accuracy."""
    name = min(stage, key=lambda domain: stage[domain])
    return name, stage[name]


def forgetting(stages: Sequence[Stage], stays: Sequence[str]) -> float | None:
    """The drop from a domain's best accuracy since it was learned to its final accuracy.

    Mean over the domains whose last stay ended before the last one; None if there is none.
    Negative if later domains helped.

    Examples
    --------
    >>> stages = [{"a": 0.9, "b": 0.3}, {"a": 0.5, "b": 0.8}]
    >>> forgetting(stages, ["a", "b"])
    0.4
    """
    falls = [
        max(stage[domain] for stage in stages[first:-1]) - stages[-1][domain]
        for domain, first, _ in _left_behind(stages, stays)
    ]
    return sum(falls) / len(falls) if falls else None


def backward_transfer(stages: Sequence[Stage], stays: Sequence[str]) -> float | None:
    """The final accuracy minus the one just after the domain's last stay. Negative: forgetting.

    Examples
    --------
    >>> backward_transfer([{"a": 0.75, "b": 0.25}, {"a": 0.5, "b": 0.75}], ["a", "b"])
    -0.25
    """
    changes = [
        stages[-1][domain] - stages[last][domain] for domain, _, last in _left_behind(stages, stays)
    ]
    return sum(changes) / len(changes) if changes else None


def _left_behind(stages: Sequence[Stage], stays: Sequence[str]) -> list[tuple[str, int, int]]:
    """(domain, first stay, last stay) of every measured domain that is not the last one."""
    if len(stages) != len(stays):
        raise UsageError(f"{len(stages)} evaluations and {len(stays)} stays do not fit together")
    names = list(dict.fromkeys(stays))
    last = {name: max(i for i, stay in enumerate(stays) if stay == name) for name in names}
    left = [name for name in names if name != stays[-1] and name in stages[-1]]
    return [(name, stays.index(name), last[name]) for name in left]
