"""Class names as vectors: what tasks can say about themselves besides their images."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DIM = 32


def hashed_names(names: Sequence[str], dim: int = DIM) -> NDArray[np.float32]:
    """Each name as the sum of its hashed character 3-grams, of length 1: float32 [names, dim].

    Names that share endings, syllables or script are close. Case does not count.

    Examples
    --------
    >>> english, german, german_too = hashed_names(
    ...     ["hammer", "Handschuh", "Handtuch"], dim=512
    ... )
    >>> bool(german @ german_too > german @ english)
    True
    """
    vectors = np.zeros((len(names), dim), np.float32)
    for vector, name in zip(vectors, names, strict=True):
        word = f"<{name.lower()}>"
        for start in range(max(len(word) - 2, 1)):
            hashed = zlib.crc32(word[start : start + 3].encode("utf-8", "replace"))
            vector[hashed % dim] += 1.0 if hashed & 0x80000000 else -1.0
        vector /= np.linalg.norm(vector) or 1.0
    return vectors
