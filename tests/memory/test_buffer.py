from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Pictures
from metadrift.memory import Arrival, Buffer, M2D3Memory
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(ways=5, shots=1, queries=3)


def batches(n: int, channels: int = 1, size: int = 12) -> list[TaskBatch]:
    rng = np.random.default_rng(0)
    shape = (n, 2, GEOMETRY.images_per_task, channels, size, size)
    images = torch.from_numpy(rng.integers(256, size=shape, dtype=np.uint8))
    return [TaskBatch(block, GEOMETRY) for block in images]


def filled(n: int, file: Path | None = None) -> Buffer:
    buffer = Buffer(4, 2, GEOMETRY, Pictures(12, 1), file=file)
    for slot, tasks in enumerate(batches(n)):
        buffer.put(slot, tasks)
    return buffer


def test_slots_come_out_in_the_order_asked_for() -> None:
    stored = batches(3)
    out = filled(3).get([2, 0, 2])
    assert torch.equal(out.images, torch.cat([stored[i].images for i in (2, 0, 2)]))


def test_what_comes_out_is_a_copy() -> None:
    buffer = filled(1)
    buffer.get([0]).images.zero_()
    assert torch.equal(buffer.get([0]).images, batches(1)[0].images)


def test_a_grey_batch_shown_as_colour_is_stored_whole() -> None:
    grey = batches(1)[0]
    buffer = Buffer(1, 2, GEOMETRY, Pictures(12, 3))
    buffer.put(0, TaskBatch(grey.images.expand(-1, -1, 3, -1, -1), GEOMETRY))
    assert torch.equal(buffer.get([0]).images[:, :, 2:], grey.images)


def test_the_whole_memory_takes_the_bytes_it_says_within_2_percent() -> None:
    tracemalloc.start()
    buffer = Buffer(40, 2, TaskGeometry(5, 1, 10), Pictures(28, 3))
    memory = M2D3Memory(buffer, np.random.default_rng(0))
    images = torch.zeros(2, 55, 3, 28, 28, dtype=torch.uint8)
    for step in range(80):
        memory.offer(Arrival(TaskBatch(images, buffer.geometry), step // 20))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert buffer.nbytes == 40 * 2 * 55 * 3 * 28 * 28
    assert used == pytest.approx(buffer.nbytes, rel=0.02)


def test_a_buffer_in_a_file_equals_one_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "new" / "memory.bin"
    in_file, in_memory = filled(3, file), filled(3)
    assert file.stat().st_size == in_file.nbytes == in_memory.nbytes
    assert torch.equal(in_file.get([1, 2, 0]).images, in_memory.get([1, 2, 0]).images)
    state = in_file.state_dict()
    assert type(state["images"]) is np.ndarray  # a copy in memory, not the map
    np.testing.assert_array_equal(state["images"], in_memory.state_dict()["images"])


def test_a_state_holds_the_filled_slots_and_is_no_alias() -> None:
    buffer = filled(3)
    state = buffer.state_dict()
    assert len(state["images"]) == 3
    buffer.put(0, batches(3)[2])
    again = Buffer(4, 2, GEOMETRY, Pictures(12, 1))
    again.load_state_dict(state)
    assert again.filled == 3
    assert torch.equal(again.get([0]).images, batches(1)[0].images)


def test_logits_are_kept_up_to_their_row_mean_and_marked_where_missing() -> None:
    buffer = Buffer(3, 2, GEOMETRY, Pictures(12, 1), logits=True)
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(2, 15, 5)) - 5000).float()
    first, second, _ = batches(3)
    buffer.put(0, first, logits)
    buffer.put(1, second)
    kept, known = buffer.get_logits([1, 0])
    assert known.tolist() == [False, False, True, True]
    expected = logits - logits.mean(-1, keepdim=True)
    torch.testing.assert_close(kept[2:], expected, atol=2e-3, rtol=1e-3)
    assert buffer.nbytes == 3 * 2 * (20 * 12 * 12 + 15 * 5 * 2)
    buffer.put(0, second)
    assert not buffer.get_logits([0])[1].any()


def test_huge_logits_stay_finite() -> None:
    buffer = Buffer(1, 2, GEOMETRY, Pictures(12, 1), logits=True)
    logits = torch.zeros(2, 15, 5)
    logits[..., 0] = 1e9
    buffer.put(0, batches(1)[0], logits)
    kept = buffer.get_logits([0])[0]
    assert kept.isfinite().all()
    assert torch.equal(kept.argmax(-1), torch.zeros(2, 15, dtype=torch.long))
    assert (kept[..., 0] - kept[..., 1]).min() > 1e4  # as sure as before


def test_wrong_use_is_told_in_a_sentence() -> None:
    buffer = filled(2)
    with pytest.raises(UsageError, match="slot 3 is neither filled nor the next free one"):
        buffer.put(3, batches(1)[0])
    with pytest.raises(UsageError, match="slots 0 to 1 are filled"):
        buffer.get([2])
    with pytest.raises(MetadriftError, match="the memory holds batches"):
        buffer.put(0, batches(1, size=16)[0])
    with pytest.raises(UsageError, match="keeps no logits"):
        buffer.get_logits([0])
    with pytest.raises(MetadriftError, match="saved memory holds 2 batches"):
        Buffer(1, 2, GEOMETRY, Pictures(12, 1)).load_state_dict(buffer.state_dict())
    with pytest.raises(MetadriftError, match=r"12, 12\]; this one has room for 4 of"):
        Buffer(4, 2, GEOMETRY, Pictures(16, 1)).load_state_dict(buffer.state_dict())
    with pytest.raises(MetadriftError, match="differ in whether logits are kept"):
        Buffer(4, 2, GEOMETRY, Pictures(12, 1), logits=True).load_state_dict(buffer.state_dict())


def test_no_room_is_told_with_the_size(tmp_path: Path) -> None:
    with pytest.raises(MetadriftError, match=r"no room for 1000000000 batches of tasks \(.* GB\)"):
        Buffer(10**9, 2, GEOMETRY, Pictures(84, 3))
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(MetadriftError, match="no room for 3 batches"):
        Buffer(3, 2, GEOMETRY, Pictures(84, 3), file=tmp_path / "taken" / "memory.bin")
