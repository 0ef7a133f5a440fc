"""Badges: logo-like marks in flat colours, on different surfaces.

A class is a mark: a plate, a rim, a field that divides the plate, and an emblem, with their
colours. Each image shows it turned, tilted or faded, on paper, cloth, metal or a wall.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metadrift.data.synthetic.canvas import Array, Frame, fractal, keys, paint, pose, to_bytes

_INKS = np.array(
    [
        (0.80, 0.10, 0.14), (0.93, 0.44, 0.10), (0.97, 0.78, 0.14), (0.16, 0.56, 0.26),
        (0.08, 0.46, 0.56), (0.12, 0.28, 0.66), (0.38, 0.20, 0.56), (0.86, 0.34, 0.56),
        (0.08, 0.09, 0.12), (0.96, 0.96, 0.94), (0.55, 0.36, 0.20), (0.50, 0.76, 0.90),
    ]
)  # fmt: skip


def draw_class(index: int, rng: np.random.Generator, images: int, size: int) -> NDArray[np.uint8]:
    """uint8 [images, size, size, 3]."""
    mark = _mark(rng)
    picture = _surface(rng, images, size)
    frame = pose(rng, images, size, shift=0.2, turn=0.4, zoom=(0.64, 1.1), squash=0.14)
    tilt = rng.uniform(-0.22, 0.22, (2, images, 1, 1))
    depth = 1.0 + tilt[0] * frame.u + tilt[1] * frame.v
    frame = Frame(frame.u * depth, frame.v * depth, frame.pixel)
    shadow = frame.moved(*rng.uniform(-0.12, 0.12, (2, images, 1, 1)))
    picture = paint(picture, 0.45 * shadow.cover(_plate(shadow, mark), soft=4.0), (0.0, 0.0, 0.0))
    picture = _stick(picture, frame, mark)
    sheen = 1.0 + rng.uniform(-0.3, 0.3, (images, 1, 1)) * frame.u
    sheen = sheen + rng.uniform(-0.3, 0.3, (images, 1, 1)) * frame.v
    light = rng.uniform(0.6, 1.2, (images, 1, 1, 1)) * rng.uniform(0.88, 1.12, (images, 1, 1, 3))
    picture = picture * sheen[..., None] * light
    return to_bytes(picture + rng.uniform(-0.015, 0.015, picture.shape))


@dataclass(frozen=True)
class _Mark:
    plate: int
    field: int
    emblem: int
    points: int
    rim: float
    size: float
    ratio: float
    turn: float
    inks: Array  # [4, 3]: plate, field, emblem, rim


def _mark(rng: np.random.Generator) -> _Mark:
    inks = _INKS[rng.permutation(len(_INKS))[:4]]
    return _Mark(
        plate=int(rng.integers(7)),
        field=int(rng.integers(7)),
        emblem=int(rng.integers(8)),
        points=int(rng.integers(3, 8)),
        rim=rng.choice([0.0, 0.06, 0.12]),
        size=rng.uniform(0.3, 0.46),
        ratio=rng.uniform(0.7, 1.0),
        turn=rng.choice([0.0, 0.25, 0.5, 0.75]) * np.pi,
        inks=np.clip(inks + rng.uniform(-0.05, 0.05, inks.shape), 0, 1),
    )


def _stick(picture: Array, frame: Frame, mark: _Mark) -> Array:
    plate, field, emblem, rim = mark.inks
    edge = _plate(frame, mark)
    picture = paint(picture, frame.cover(edge), rim)
    inside = frame.cover(edge + mark.rim)
    picture = paint(picture, inside, plate)
    picture = paint(picture, inside * frame.cover(_field(frame, mark)), field)
    return paint(picture, inside * frame.cover(_emblem(frame, mark)), emblem)


def _plate(frame: Frame, mark: _Mark) -> Array:
    wide, high = 0.78, 0.78 * mark.ratio
    if mark.plate == 0:
        return frame.ellipse(0, 0, wide, wide)
    if mark.plate == 1:
        return frame.ellipse(0, 0, wide, high * 0.8)
    if mark.plate == 2:
        return _box(frame, wide * 0.8, high * 0.8) - 0.12
    if mark.plate == 3:
        shield = [
            (-0.7, -0.75),
            (0.7, -0.75),
            (0.7, 0.1),
            (0.42, 0.52),
            (0, 0.82),
            (-0.42, 0.52),
            (-0.7, 0.1),
        ]
        return frame.polygon(np.array([shield]))
    if mark.plate == 4:
        return frame.polygon(_star(6, 0.85, 0.85 * 0.9))
    if mark.plate == 5:
        return frame.polygon(_star(4, 0.92, 0.66))
    return frame.polygon(_star(9, 0.9, 0.72))


def _field(frame: Frame, mark: _Mark) -> Array:
    c, s = np.cos(mark.turn), np.sin(mark.turn)
    u: Array = frame.u * c + frame.v * s
    v: Array = frame.v * c - frame.u * s
    if mark.field == 0:
        return np.abs(u) - 0.2
    if mark.field == 1:
        return u
    if mark.field == 2:
        return np.minimum(np.abs(u), np.abs(v)) - 0.13
    if mark.field == 3:
        return np.where(u * v > 0, -1.0, 1.0) * np.minimum(np.abs(u), np.abs(v))
    if mark.field == 4:
        return (np.abs(2 * (u * 1.7 - np.floor(u * 1.7)) - 1) - 0.5) / 3.4
    if mark.field == 5:
        return np.abs(np.sqrt(u * u + v * v) - 0.52) - 0.06
    return np.ones_like(u)


def _emblem(frame: Frame, mark: _Mark) -> Array:
    r = mark.size
    if mark.emblem == 0:
        return frame.polygon(_star(mark.points, r, r * 0.45))
    if mark.emblem == 1:
        return frame.polygon(_star(mark.points, r, r * np.cos(np.pi / mark.points)))
    if mark.emblem == 2:
        bite = frame.ellipse(r * 0.4, -r * 0.2, r * 0.8, r * 0.8)
        return np.maximum(frame.ellipse(0, 0, r, r), -bite)
    if mark.emblem == 3:
        return np.abs(frame.ellipse(0, 0, r * 0.8, r * 0.8)) - r * 0.25
    if mark.emblem == 4:
        across = np.minimum(_box(frame, r, r * 0.3), _box(frame, r * 0.3, r))
        return across
    if mark.emblem == 5:
        bent = np.abs(frame.u) - frame.v
        wave = np.abs(bent - r * 0.5) - r * 0.35
        return np.maximum(wave * 0.7, _box(frame, r, r))
    if mark.emblem == 6:
        bars = np.minimum(_box(frame.moved(r * 0.7, 0), r * 0.25, r), _box(frame, r, r * 0.2))
        return np.minimum(bars, _box(frame.moved(-r * 0.7, 0), r * 0.25, r))
    dots = frame.ellipse(-r * 0.6, r * 0.4, r * 0.42, r * 0.42)
    dots = np.minimum(dots, frame.ellipse(r * 0.6, r * 0.4, r * 0.42, r * 0.42))
    return np.minimum(dots, frame.ellipse(0, -r * 0.6, r * 0.42, r * 0.42))


def _box(frame: Frame, wide: float, high: float) -> Array:
    return np.maximum(np.abs(frame.u) - wide, np.abs(frame.v) - high)


def _star(points: int, outer: float, inner: float) -> Array:
    """[1, 2 * points, 2]."""
    angles = np.arange(2 * points) * (np.pi / points) - np.pi / 2
    radius = np.where(np.arange(2 * points) % 2 == 0, outer, inner)
    return np.stack([radius * np.cos(angles), radius * np.sin(angles)], 1)[None]


def _surface(rng: np.random.Generator, images: int, size: int) -> Array:
    """Paper, cloth, metal or wall: two colours, grain, and sometimes stripes."""
    frame = pose(rng, images, size, turn=3.1, zoom=(0.7, 1.5))
    key = keys(rng, images)
    base = rng.uniform(0.15, 0.95, (images, 1, 1, 1)) + rng.uniform(-0.12, 0.12, (images, 1, 1, 3))
    other = base * rng.uniform(0.5, 1.3, (images, 1, 1, 1)) + rng.uniform(
        -0.1, 0.1, (images, 1, 1, 3)
    )
    grain = fractal(frame.u * 1.4, frame.v * 1.4, key, (3, 2, 1, 1))
    lines = np.abs(2 * (frame.u * 2.3 - np.floor(frame.u * 2.3)) - 1)
    striped = rng.random((images, 1, 1)) < 0.3
    return base + np.where(striped, frame.cover((lines - 0.5) * 0.4), grain)[..., None] * (
        other - base
    )
