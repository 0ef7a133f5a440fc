"""Tiny domains and benchmarks to run on, and what makes two runs the same."""

import json

import numpy as np
from safetensors.numpy import load_file

from metadrift.data.pack import write_pack
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.record import read_lines

SIZE = 12


def write_domain(folder, name, seed, ground, channels=1, contrast=45, noise=12):
    """18 classes of 8 images: a coarse random pattern a class, plus noise, on a domain's ground."""
    rng = np.random.default_rng(seed)
    rows = []
    for c in range(18):
        pattern = np.kron(rng.normal(0, contrast, (4, 4, channels)), np.ones((3, 3, 1)))
        images = ground + pattern + rng.normal(0, noise, (8, SIZE, SIZE, channels))
        split = "train" if c < 8 else "val" if c < 13 else "test"
        rows.append((f"class{c}", split, images.clip(0, 255).astype(np.uint8)))
    return write_pack(folder / name, name, rows, source="made by the tests", licence="CC0")


def write_benchmark(path, steps, **settings):
    """A benchmark file: steps by domain, whose packs lie beside it."""
    lines = [f"{key} = {value}" for key, value in settings.items()]
    for name, count in steps.items():
        lines += ["[[segments]]", f'domain = "{name}"', f"steps = {count}", f'pack = "{name}"']
    path.write_text("\n".join(lines))
    return path


def assert_same_run(one, two, lost_lines=False):
    """Numbers, curves and the last state of a run and of the runs in it, bit for bit.

    With `lost_lines` the second may lack lines of its curves, but holds no others.
    """
    homes = [path.parent.relative_to(one) for path in one.rglob("summary.json")]
    assert homes
    assert homes == [path.parent.relative_to(two) for path in two.rglob("summary.json")]
    for home in homes:
        first, second = (_numbers(folder / home) for folder in (one, two))
        if lost_lines:
            first = first[0], [line for line in first[1] if line in second[1]]
        assert first == second, _first_difference(first, second)
        assert_same_state(one / home, two / home)


def assert_same_state(one, two):
    """Weights, optimiser, memory and detector at the end, bit for bit."""
    a, b = (_tensors(folder) for folder in (one, two))
    assert a.keys() == b.keys()
    assert [name for name in a if a[name].tobytes() != b[name].tobytes()] == []


def _numbers(folder):
    """Summary and curves, without what the clock says."""
    summary = json.loads((folder / "summary.json").read_text())
    lines = read_lines(folder / "metrics.jsonl")
    return _without(summary, "timing"), [_without(line, "steps_per_s") for line in lines]


def _first_difference(one, two):
    """In words: outside of pytest an assertion shows nothing."""
    summaries, lines = zip(one, two, strict=True)
    other = {k: [s.get(k) for s in summaries] for k in summaries[0] | summaries[1]}
    other = {k: pair for k, pair in other.items() if pair[0] != pair[1]}
    apart = [pair for pair in zip(*lines, strict=False) if pair[0] != pair[1]]
    return f"summaries: {other}; {[*map(len, lines)]} lines, first apart: {apart[:1]}"


def _without(table, key):
    return {name: value for name, value in table.items() if name != key}


def _tensors(folder):
    saved = checkpoints(folder / "checkpoints")
    return load_file(saved[-1] / "tensors.safetensors") if saved else {}
