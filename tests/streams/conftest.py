import numpy as np
import pytest

from metadrift.data.pack import open_pack, write_pack
from metadrift.streams.benchmark import Benchmark, Segment


def tiny_pack(folder, name, base, channels=1, classes=8, images=9, size=8):
    """Every pixel of image i of class c is base + c, but its first pixel, which is i."""
    rows = []
    for c in range(classes):
        block = np.full((images, size, size, channels), base + c, np.uint8)
        block[:, 0, 0, :] = np.arange(images, dtype=np.uint8)[:, None]
        rows.append((f"class{c}", "test" if c >= 6 else "train", block))
    return open_pack(write_pack(folder / name, name, rows, source="test", licence="CC0"))


@pytest.fixture(scope="session")
def packs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs")
    return {
        "low": tiny_pack(folder, "low", 0),
        "mid": tiny_pack(folder, "mid", 100, channels=3),
        "high": tiny_pack(folder, "high", 200),
    }


@pytest.fixture
def benchmark_of():
    def make(*stays, tasks=2):
        segments = tuple(Segment(domain, steps) for domain, steps in stays)
        return Benchmark("tiny", "tiny", segments, memory=10, tasks_per_step=tasks, packs={})

    return make
