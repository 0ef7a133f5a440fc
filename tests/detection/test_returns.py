"""Latent domains: a domain that comes back has its old label, and a false alarm leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from metadrift.detection import Change, DetectionConfig, LatentDomains, Move, make_detector
from metadrift.detection.returns import KEPT, Sample, nearest
from metadrift.errors import UsageError

CONFIG = DetectionConfig(window=20, burn_in=60)
Stream = Callable[..., NDArray[np.float64]]


def watched(z: NDArray[np.float64], config: DetectionConfig = CONFIG) -> LatentDomains:
    detector, domains = make_detector(config), LatentDomains(config)
    for x in z:
        domains.update(x, detector.update(x))
    return domains


def told(z: NDArray[np.float64], *changes: tuple[int, int]) -> tuple[LatentDomains, list[Move]]:
    """Domains that were told of a change that began at the first and was found at the second."""
    domains, moves = LatentDomains(CONFIG), []
    reports = {at: Change(at, start, 1.0, 0.0) for start, at in changes}
    for step, x in enumerate(z):
        moves += domains.update(x, reports.get(step))
    return domains, moves


def near(stays: list[tuple[int, int]], true: list[tuple[int, int]]) -> bool:
    return len(stays) == len(true) and all(
        label == right and abs(first - start) <= 3
        for (first, label), (start, right) in zip(stays, true, strict=True)
    )


def test_returning_domains_get_their_old_labels_and_new_ones_do_not(stream: Stream) -> None:
    z = stream(0, (150, 0.0), (150, 2.0), (100, 4.0), (100, 0.0), (100, 6.0), (150, 2.0))
    domains = watched(z)
    labels = [label for _, label in domains.stays]
    assert labels[3] == labels[0] == 0
    assert labels[5] == labels[1] == 1
    assert len(set(labels)) == len(domains) == 4
    assert near(domains.stays, list(zip((0, 150, 300, 400, 500, 600), labels, strict=True)))


def test_without_returns_every_change_opens_a_domain(stream: Stream) -> None:
    z = stream(0, (150, 0.0), (150, 2.0), (150, 0.0))
    domains = watched(z, DetectionConfig(window=20, burn_in=60, returns="off"))
    assert [label for _, label in domains.stays] == [0, 1, 2]


def test_a_false_alarm_is_undone(stream: Stream) -> None:
    domains, moves = told(stream(1, (400, 0.0)), (180, 200), (300, 310))
    assert [(m.label, m.since, m.returned) for m in moves] == [
        (1, 180, False), (0, 180, True), (2, 300, False), (0, 300, True),
    ]  # fmt: skip
    assert (domains.stays, domains.label, len(domains)) == ([(0, 0)], 0, 1)


def test_a_domain_that_is_a_little_different_stays_apart(stream: Stream) -> None:
    domains, moves = told(stream(2, (200, 0.0), (200, 0.8)), (200, 220))
    assert domains.stays == [(0, 0), (200, 1)]
    assert [m.returned for m in moves] == [False]


def test_a_return_shorter_than_two_windows_is_recognised_when_it_ends(stream: Stream) -> None:
    z = stream(3, (150, 0.0), (150, 3.0), (30, 0.0), (80, 6.0))
    domains, moves = told(z, (150, 170), (300, 315), (330, 345))
    assert [(m.label, m.since) for m in moves] == [(1, 150), (2, 300), (0, 300), (3, 330)]
    assert domains.stays == [(0, 0), (150, 1), (300, 0), (330, 3)]


def test_a_return_that_begins_blended_is_recognised_at_the_second_look(stream: Stream) -> None:
    z = stream(4, (150, 0.0), (150, 3.0), (200, 0.0))
    z[300:340] = stream(5, (40, 1.5))  # neither
    domains, moves = told(z, (150, 170), (300, 320))
    assert [(m.label, m.returned) for m in moves] == [(1, False), (2, False), (0, True)]
    assert domains.stays == [(0, 0), (150, 1), (300, 0)]


def test_the_nearest_domain_decides_among_several_that_fit() -> None:
    rng = np.random.default_rng(0)
    kept = {i: rng.normal(mean, 1, (60, 6)) for i, mean in enumerate((0.0, 0.25, 5.0))}
    fresh = rng.normal(0.25, 1, (60, 6))
    assert nearest(fresh, kept, 4, rng) == 1
    assert nearest(fresh, {7: kept[2]}, 4, rng) is None
    assert nearest(fresh, {7: kept[1][:3]}, 4, rng) is None  # too few to compare


def test_a_state_taken_at_any_step_goes_on_to_the_same_bits(stream: Stream) -> None:
    z = stream(6, (150, 0.0), (120, 3.0), (150, 0.0))
    changes = [(150, 165), (270, 285)]
    whole, moves = told(z, *changes)
    reports = {at: Change(at, start, 1.0, 0.0) for start, at in changes}
    for cut in (0, 1, 149, 166, 190, 284, 286, 300, 330):
        first, second = LatentDomains(CONFIG), LatentDomains(CONFIG)
        found = []
        for step, x in enumerate(z[:cut]):
            found += first.update(x, reports.get(step))
        second.load_state_dict(first.state_dict())
        for step, x in enumerate(z[cut:], cut):
            found += second.update(x, reports.get(step))
        assert found == moves
        assert plain(second.state_dict()) == plain(whole.state_dict())


def plain(value: Any) -> str:
    """The whole state as text: it holds nothing but arrays and what JSON knows."""
    return json.dumps(value, default=lambda leaf: leaf.tolist())


def test_samples_put_together_are_a_sample_of_all() -> None:
    rng = np.random.default_rng(0)
    keys, vectors = rng.random(500), rng.normal(size=(500, 2))
    whole, one, two = Sample(), Sample(), Sample()
    for i, (key, vector) in enumerate(zip(keys.tolist(), vectors, strict=True)):
        whole.offer(key, vector)
        (one if i < 300 else two).offer(key, vector)
    one.merge(two)
    assert len(one.vectors) == KEPT
    assert np.array_equal(one.vectors, whole.vectors)
    assert np.array_equal(whole.vectors, vectors[np.argsort(keys)[:KEPT]])


def test_memory_of_the_summaries_does_not_grow_with_the_stream() -> None:
    rng = np.random.default_rng(0)
    domains, sizes = LatentDomains(CONFIG), []
    for step in range(1200):
        domains.update(rng.normal(size=3), None)
        if step in (600, 1199):
            sizes.append(len(plain(domains.state_dict())))
    assert sizes[1] < 1.05 * sizes[0]


def test_returns_are_on_where_features_do_not_drift() -> None:
    by = {f: DetectionConfig(features=f).resolved().returns for f in ("auto", "frozen", "network")}
    assert by == {"auto": "on", "frozen": "on", "network": "off"}
    assert DetectionConfig(mode="paper").resolved().returns == "off"
    assert DetectionConfig(returns="off").scaled(0.1).returns == "off"
    with pytest.raises(UsageError, match="knows no returns"):
        DetectionConfig(mode="paper", returns="on")
