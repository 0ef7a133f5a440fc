"""The weight of the replayed tasks against the arriving ones."""

from __future__ import annotations


def domain_balance(latent_domains: int, cap: float = 3.0) -> float:
    """The factor of the replay term in the domain-balanced objective.

    The arriving tasks represent one domain, the replayed ones all domains before it. The factor
    L - 1 gives every domain the same weight. `cap` limits it, so that replay does not dominate the
    step. It is at least 1.

    Examples
    --------
    >>> [domain_balance(L) for L in (0, 1, 2, 3, 4, 9)]
    [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]
    """
    return max(1.0, min(float(latent_domains - 1), cap))
