"""The paper's projected space."""

from __future__ import annotations

import numpy as np
import pytest

from metadrift.detection import Projection
from metadrift.errors import MetadriftError


def test_z_holds_the_distances_to_the_past_averages() -> None:
    o = np.random.default_rng(0).normal(size=(12, 3))
    projection = Projection(m=3, alpha=0.3)
    z = [projection.update(x) for x in o]
    O = [o[0]]  # noqa: E741  the paper's name
    for x in o[1:]:
        O.append(0.3 * x + 0.7 * O[-1])
    for t in range(1, 12):
        expected = [np.linalg.norm(o[t] - O[max(t - i, 0)]) for i in (1, 2, 3)]
        assert z[t] == pytest.approx(expected)
    assert z[0].tolist() == [0, 0, 0]


def test_a_projection_continues_from_its_state() -> None:
    o = np.random.default_rng(1).normal(size=(20, 3))
    whole, first = Projection(), Projection()
    expected = [whole.update(x) for x in o]
    for x in o[:9]:
        first.update(x)
    second = Projection()
    second.load_state_dict(first.state_dict())
    first.update(o[9])  # must not reach the copy
    assert np.array_equal([second.update(x) for x in o[9:]], expected[9:])


def test_another_length_is_refused() -> None:
    projection = Projection()
    projection.update(np.zeros(3))
    with pytest.raises(MetadriftError, match=r"shape \[4\], those before it \[3\]"):
        projection.update(np.zeros(4))
