from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.data.pack import SPLITS, Pack, Split, open_pack, write_pack
from metadrift.data.sampler import TaskSampler, distinct
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures
from metadrift.tasks import TaskBatch, TaskGeometry

SIDE = 2
sizes_of_splits = st.lists(
    st.lists(st.integers(1, 9), min_size=0, max_size=8), min_size=3, max_size=3
)
geometries = st.builds(TaskGeometry, st.integers(2, 5), st.integers(1, 3), st.integers(1, 4))


def numbered_pack(folder: str, sizes: list[list[int]]) -> Pack:
    """A pack whose images say their class and their place in it: pixels (class, place)."""
    rows: list[tuple[str, Split, np.ndarray]] = []
    for split, counts in zip(SPLITS, sizes, strict=True):
        for count in counts:
            images = np.zeros((count, SIDE, SIDE, 1), np.uint8)
            images[:, 0] = len(rows)
            images[:, 1] = np.arange(count)[:, None, None]
            rows.append((f"{split} {len(rows)}", split, images))
    return open_pack(write_pack(Path(folder) / "p", "p", rows, source="", licence=""))


def classes_and_places(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return images[..., 0, 0, 0], images[..., 0, 1, 0]


def drawable(sizes: list[int], geometry: TaskGeometry) -> bool:
    return sum(size >= geometry.images_per_class for size in sizes) >= geometry.ways


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(sizes=sizes_of_splits, geometry=geometries, seed=st.integers(0, 99), tasks=st.integers(1, 3))
def test_tasks_keep_every_promise(
    sizes: list[list[int]], geometry: TaskGeometry, seed: int, tasks: int
) -> None:
    if not any(map(len, sizes)):
        return
    with tempfile.TemporaryDirectory() as folder:
        pack = numbered_pack(folder, sizes)
        for split, counts in zip(SPLITS, sizes, strict=True):
            if not drawable(counts, geometry):
                with pytest.raises(MetadriftError, match=f"{split} classes with at least"):
                    TaskSampler(pack, split, geometry)
                continue
            batch = TaskSampler(pack, split, geometry).draw(tasks, np.random.default_rng(seed))
            assert len(batch) == tasks
            for t in range(tasks):
                check_task(batch, t, set(pack.classes(split)))


def check_task(batch: TaskBatch, t: int, allowed: set[int]) -> None:
    geometry = batch.geometry
    support_class, support_place = classes_and_places(batch.support[t])
    query_class, query_place = classes_and_places(batch.query[t])
    ways = support_class[:: geometry.shots]
    assert len(set(ways.tolist())) == geometry.ways, "classes are distinct"
    assert set(ways.tolist()) <= allowed, "splits never mix"
    torch.testing.assert_close(support_class, ways[batch.support_labels])
    torch.testing.assert_close(query_class, ways[batch.query_labels])
    support = set(zip(support_class.tolist(), support_place.tolist(), strict=True))
    query = set(zip(query_class.tolist(), query_place.tolist(), strict=True))
    assert not support & query, "no image is asked for that was shown"
    assert len(support | query) == geometry.images_per_task, "no image appears twice"


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_the_same_seed_gives_the_same_bytes(seed: int) -> None:
    geometry = TaskGeometry(3, 1, 2)
    with tempfile.TemporaryDirectory() as folder:
        pack = numbered_pack(folder, [[5] * 6, [5] * 6, [5] * 6])
        draws = [
            TaskSampler(pack, "train", geometry).draw(4, np.random.default_rng(seed)).images
            for _ in range(2)
        ]
        assert torch.equal(*draws)
        other = TaskSampler(pack, "train", geometry).draw(4, np.random.default_rng(seed + 1))
        assert not torch.equal(draws[0], other.images)


def test_every_class_and_image_of_the_split_is_drawn_in_time(tmp_path: Path) -> None:
    pack = numbered_pack(str(tmp_path), [[4] * 5, [4], [4]])
    sampler = TaskSampler(pack, "train", TaskGeometry(2, 1, 1))
    found = classes_and_places(sampler.draw(300, np.random.default_rng(0)).images)
    assert len(set(zip(*(part.flatten().tolist() for part in found), strict=True))) == 20


def test_grey_is_shown_as_colour_when_asked_but_not_the_other_way(tmp_path: Path) -> None:
    grey = numbered_pack(str(tmp_path / "grey"), [[3, 3], [3], [3]])
    batch = TaskSampler(grey, "train", TaskGeometry(2, 1, 1), Pictures(grey.image_size, 3)).draw(
        1, np.random.default_rng(0)
    )
    assert batch.images.shape[2] == 3
    assert torch.equal(batch.images[:, :, 0], batch.images[:, :, 2])
    row = ("a", "train", np.zeros((3, 2, 2, 3), np.uint8))
    colour = open_pack(write_pack(tmp_path / "c", "c", [row], source="", licence=""))  # type: ignore[list-item]
    with pytest.raises(MetadriftError, match="2 px; they cannot be drawn as grey"):
        TaskSampler(colour, "train", TaskGeometry(2, 1, 1), Pictures(2, 1))


def test_every_order_of_distinct_numbers_is_as_likely_as_every_other() -> None:
    rng = np.random.default_rng(0)
    drawn = distinct(np.full(6000, 4), 2, rng)
    counts = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16).reshape(4, 4)
    assert counts.diagonal().tolist() == [0, 0, 0, 0]
    expected = 6000 / 12
    chi2 = ((counts[~np.eye(4, dtype=bool)] - expected) ** 2 / expected).sum()
    assert chi2 < 31.3  # 99.9 % of chi-square with 11 degrees of freedom


def test_very_large_classes_are_drawn_from_their_whole_range() -> None:
    sizes = np.array([50_000, 30])
    drawn = distinct(sizes, 30, np.random.default_rng(0))
    assert sorted(drawn[1].tolist()) == list(range(30))
    assert len(set(drawn[0].tolist())) == 30
    assert drawn[0].max() > 25_000
