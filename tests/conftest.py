"""Tiny domains that a small learner can tell apart, and a benchmark file over them."""

import os

import numpy as np
import pytest

from metadrift.domains.pack import write_pack

SIZE = 12


def write_domain(folder, name, seed, ground, channels):
    """18 classes of 8 images: a coarse random pattern a class, plus noise, on a domain's ground."""
    rng = np.random.default_rng(seed)
    rows = []
    for c in range(18):
        pattern = np.kron(rng.normal(0, 45, (4, 4, channels)), np.ones((3, 3, 1)))
        images = ground + pattern + rng.normal(0, 12, (8, SIZE, SIZE, channels))
        split = "train" if c < 8 else "val" if c < 13 else "test"
        rows.append((f"class{c}", split, images.clip(0, 255).astype(np.uint8)))
    return write_pack(folder / name, name, rows, source="made by the tests", licence="CC0")


@pytest.fixture(scope="session", autouse=True)
def one_cache_for_all(tmp_path_factory):
    """Built-in domains are made once a test run: its processes share the folder, and its lock."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    os.environ["METADRIFT_CACHE"] = str(folder / "cache")


@pytest.fixture(scope="session")
def tiny_benchmark(tmp_path_factory):
    """The path of a benchmark of three tiny domains, 40 + 30 + 50 steps, memory 8."""
    folder = tmp_path_factory.mktemp("tiny")
    write_domain(folder, "dark", 1, 50, 1)
    write_domain(folder, "middle", 2, 120, 3)
    write_domain(folder, "bright", 3, 200, 1)
    lines = ["memory = 8"]
    for name, steps in (("dark", 40), ("middle", 30), ("bright", 50)):
        lines += ["[[segments]]", f'domain = "{name}"', f"steps = {steps}", f'pack = "{name}"']
    path = folder / "tiny.toml"
    path.write_text("\n".join(lines))
    return path
