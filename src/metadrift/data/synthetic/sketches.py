"""Sketches: light, shaky strokes on black.

A class is an invented thing: an outline with two or three kinds of parts on it. Each image draws
the same thing again, in another pose, with other pressure and less exact lines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from metadrift.data.synthetic.canvas import Array, fractal, keys, pose, to_bytes


def draw_class(index: int, rng: np.random.Generator, images: int, size: int) -> NDArray[np.uint8]:
    """uint8 [images, size, size, 1]."""
    strokes = _thing(rng)
    frame = pose(rng, images, size, shift=0.18, turn=0.35, zoom=(0.72, 1.05), squash=0.16)
    key = keys(rng, images)
    wobble = [
        fractal(frame.u * 1.6 + 9, frame.v * 1.6 + 9, key + np.uint64(k), (2, 1)) - 0.5
        for k in (0, 7)
    ]
    frame = frame.moved(0.34 * wobble[0], 0.34 * wobble[1])
    width = rng.uniform(0.028, 0.06, (images, 1, 1))
    pressure = 0.72 + 0.5 * fractal(frame.u * 2, frame.v * 2, key + np.uint64(31), (1,))
    picture = np.zeros((images, size, size))
    for stroke in strokes:
        moved = stroke[None] + rng.uniform(-0.05, 0.05, (images, 1, 2))
        moved = moved * rng.uniform(0.9, 1.1, (images, 1, 2))
        moved = moved + rng.uniform(-0.02, 0.02, (images, *stroke.shape))
        ink = frame.cover(frame.stroke(moved, width), soft=1.3)
        # Now and then a stroke is missing, but never the outline.
        kept = (rng.random((images, 1, 1)) > 0.06) | (stroke is strokes[0])
        picture = np.maximum(picture, ink * kept)
    return to_bytes(picture * np.minimum(pressure, 1.0))


def _thing(rng: np.random.Generator) -> list[Array]:
    """The strokes of a class, each [k, 2]; the first is the outline."""
    rx, ry = rng.uniform(0.3, 0.62, 2)
    centre = rng.uniform(-0.16, 0.16, 2)
    outline = _outline(rng) * (rx, ry) + centre
    strokes = [outline]
    for part in rng.choice(len(_PARTS), rng.integers(2, 4), replace=False):
        strokes += _PARTS[part](rng, centre, rx, ry)
    # Every thing has the same size and place, so that these say nothing about the class.
    low, high = np.concatenate(strokes).min(0), np.concatenate(strokes).max(0)
    return [(stroke - (low + high) / 2) * (1.6 / (high - low).max()) for stroke in strokes]


def _outline(rng: np.random.Generator) -> Array:
    """A closed line around the origin, about 1 in radius."""
    kind = rng.integers(6)
    if kind == 0:
        return _circle(14)
    if kind in (1, 2):
        return _circle(int(rng.integers(3, 7)), turn=rng.choice([0.0, 0.25, 0.5]))
    if kind == 3:
        points = int(rng.integers(4, 7))
        star = _circle(2 * points, turn=0.25)
        star[1::2] *= rng.uniform(0.35, 0.6)
        return star
    if kind == 4:
        half = _circle(16)[: rng.integers(8, 12)]
        return np.concatenate([half, half[:1]])
    blob = _circle(16)
    turns = np.arange(len(blob)) * (2 * np.pi / 16)
    blob *= (
        1
        + rng.uniform(0.15, 0.35) * np.sin(rng.integers(2, 4) * turns + rng.uniform(0, 6))[:, None]
    )
    blob[-1] = blob[0]
    return blob


def _circle(corners: int, turn: float = 0.0) -> Array:
    """A closed regular polygon [corners + 1, 2]; `turn` is in steps of a corner."""
    angles = (np.arange(corners + 1) % corners + turn) * (2 * np.pi / corners) - np.pi / 2
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def _legs(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    count, length = rng.integers(2, 5), rng.uniform(0.2, 0.45)
    side = rng.choice([-1.0, 1.0])
    splay = rng.uniform(-0.15, 0.3)
    feet = np.linspace(-0.7, 0.7, count)
    start = [np.add(centre, (x * rx, side * ry * 0.8)) for x in feet]
    return [
        np.stack([s, np.add(s, (splay * x, side * length))])
        for s, x in zip(start, feet, strict=True)
    ]


def _rays(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    count, length = int(rng.integers(5, 10)), rng.uniform(1.3, 1.6)
    around = _circle(count, rng.uniform(0, 1))[:-1]
    return [np.stack([centre + p * (rx, ry) * 1.1, centre + p * (rx, ry) * length]) for p in around]


def _loops(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    count, radius = int(rng.integers(1, 4)), rng.uniform(0.12, 0.24)
    around = _circle(count, rng.uniform(0, 1))[:-1]
    return [centre + p * (rx, ry) + radius * (p + _circle(9)) for p in around]


def _tail(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    side, waves = rng.choice([-1.0, 1.0]), rng.uniform(0.5, 2.5)
    along = np.linspace(0, 1, 10)
    wave = rng.uniform(0.08, 0.18) * np.sin(along * waves * 2 * np.pi)
    line = np.stack([side * (rx * 0.9 + along * rng.uniform(0.3, 0.5)), wave], 1)
    return [centre + (line if rng.random() < 0.6 else line[:, ::-1])]


def _inner(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    return [centre + _outline(rng) * (rx, ry) * rng.uniform(0.35, 0.6)]


def _bars(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    count = rng.integers(1, 4)
    at = np.linspace(-0.5, 0.5, count) if count > 1 else np.zeros(1)
    bars = [np.array([[-0.75, y], [0.75, y + rng.uniform(-0.1, 0.1)]]) for y in at]
    upright = rng.random() < 0.5
    return [centre + (bar[:, ::-1] if upright else bar) * (rx, ry) for bar in bars]


def _eyes(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    apart, height, radius = rng.uniform(0.25, 0.5), rng.uniform(-0.4, 0.4), rng.uniform(0.03, 0.1)
    return [centre + (x * rx, height * ry) + radius * _circle(6) for x in (-apart, apart)]


def _horns(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    apart, length, bend = rng.uniform(0.2, 0.7), rng.uniform(0.25, 0.45), rng.uniform(-0.3, 0.3)
    side = rng.choice([-1.0, 1.0])
    line = np.array([[apart * rx, 0.75 * ry], [apart * rx + bend / 2, 0.8 * ry + length / 2]])
    line = np.concatenate([line, [[apart * rx + bend, 0.75 * ry + length]]]) * (1.0, side)
    return [centre + line, centre + line * (-1.0, 1.0)]


def _mast(rng: np.random.Generator, centre: Array, rx: float, ry: float) -> list[Array]:
    height = rng.uniform(0.35, 0.6)
    foot = np.add(centre, (rng.uniform(-0.4, 0.4) * rx, -ry * 0.9))
    pole = np.stack([foot, foot - (0.0, height)])
    side = rng.choice([-1.0, 1.0]) * rng.uniform(0.2, 0.4)
    flag = foot + np.array([[0.0, -height], [side, -height * 0.8], [0.0, -height * 0.5]])
    return [pole, flag]


_PARTS = (_legs, _rays, _loops, _tail, _inner, _bars, _eyes, _horns, _mast)
