"""How much the replayed tasks weigh against the arriving ones."""

from __future__ import annotations


def domain_balance(latent_domains: int, cap: float = 3.0) -> float:
    """The factor of the replay term in the domain-balanced objective.

    The arriving tasks stand for one domain, the replayed ones for all before it. Weighing replay
    by their number, L - 1, makes every domain count the same; `cap` keeps the step from being
    replay alone. At least 1.

    Examples
    --------
    >>> [domain_balance(L) for L in (0, 1, 2, 3, 4, 9)]
    [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]
    """
    return max(1.0, min(float(latent_domains - 1), cap))
