"""Textures: patches that have the statistics of colour photographs.

A class is a material: a pattern, its spectrum and grain, and a palette. Each image is another
patch of it, nearer or farther, turned, under another light and another white balance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metadrift.data.synthetic.canvas import (
    Array,
    Keys,
    fractal,
    keys,
    lattice,
    pose,
    shrink,
    to_bytes,
)

_SUPERSAMPLE = 2


def draw_class(index: int, rng: np.random.Generator, images: int, size: int) -> NDArray[np.uint8]:
    """uint8 [images, size, size, 3]."""
    material = _material(rng)

    def each(low: float, high: float, *shape: int) -> Array:
        return rng.uniform(low, high, (images, 1, 1, *shape))

    frame = pose(rng, images, size * _SUPERSAMPLE, turn=0.5, zoom=(0.75, 1.35), squash=0.15)
    key = keys(rng, images)
    u, v = frame.u + each(0, 50), frame.v + each(0, 50)
    c, s = np.cos(material.direction), np.sin(material.direction)
    u, v = (u * c + v * s) * material.scale, (v * c - u * s) * material.scale * material.stretch
    bend = material.warp * (fractal(u * 0.5, v * 0.5, key, (2, 1)) - 0.5)
    grain = fractal(u * 0.7, v * 0.7, key + np.uint64(5), material.spectrum)
    level = _PATTERNS[material.pattern](u + bend, v + bend, key)
    level = (1 - material.grain) * level + material.grain * grain
    level = np.clip((level - 0.5) * material.contrast + 0.5 + each(-0.08, 0.08), 0.0, 1.0)
    picture = _colour(level, material.palette, grain)
    light = 1.0 + each(-0.45, 0.45) * frame.u + each(-0.45, 0.45) * frame.v
    shade = 0.75 + 0.5 * fractal(frame.u * 0.9, frame.v * 0.9, key + np.uint64(77), (1,))
    balance = each(0.45, 1.4, 1) * each(0.78, 1.22, 3)
    picture = picture * (light * shade)[..., None] * balance + each(-0.1, 0.12, 1)
    picture = shrink(picture, _SUPERSAMPLE)
    return to_bytes(picture + rng.uniform(-0.03, 0.03, picture.shape))


@dataclass(frozen=True)
class _Material:
    pattern: int
    scale: float
    stretch: float
    direction: float
    warp: float
    spectrum: tuple[float, ...]
    grain: float
    contrast: float
    palette: Array  # [3, 3], from dark to light


def _material(rng: np.random.Generator) -> _Material:
    roughness = rng.uniform(0.3, 1.0)
    base = rng.uniform(0.25, 0.8, 3)
    base += 0.5 * (base.mean() - base)  # the colours of things are duller than those of paint
    accent = np.clip(base + rng.uniform(-0.35, 0.35, 3), 0.0, 1.0)
    palette = np.stack([base * rng.uniform(0.1, 0.45), base, accent * 0.5 + 0.5])
    return _Material(
        pattern=int(rng.integers(len(_PATTERNS))),
        scale=rng.uniform(1.4, 4.2),
        stretch=rng.uniform(1.0, 2.6),
        direction=rng.uniform(0, np.pi),
        warp=rng.choice([0.0, 0.4, 1.0, 1.8]),
        spectrum=tuple(roughness**k for k in range(4)),
        grain=rng.uniform(0.1, 0.45),
        contrast=rng.uniform(1.1, 2.2),
        palette=palette[rng.permutation(3)] if rng.random() < 0.3 else palette,
    )


def _colour(level: Array, palette: Array, grain: Array) -> Array:
    """Dark, middle and light of a palette [3, 3] along the level, [n, S, S, 3]."""
    low, high = np.clip(level * 2, 0, 1)[..., None], np.clip(level * 2 - 1, 0, 1)[..., None]
    picture = palette[0] + low * (palette[1] - palette[0]) + high * (palette[2] - palette[1])
    return np.asarray(picture * (0.8 + 0.4 * grain[..., None]))


def _wave(x: Array) -> Array:
    """A triangle wave in 0..1 of period 1."""
    return np.abs(2.0 * (x - np.floor(x)) - 1.0)


def _clouds(u: Array, v: Array, key: Keys) -> Array:
    return np.clip((fractal(u, v, key + np.uint64(1), (4, 2, 1)) - 0.5) * 1.6 + 0.5, 0, 1)


def _ridges(u: Array, v: Array, key: Keys) -> Array:
    return np.clip(1.0 - 5.0 * np.abs(fractal(u, v, key + np.uint64(2), (3, 1)) - 0.5), 0, 1)


def _stripes(u: Array, v: Array, key: Keys) -> Array:
    return _wave(u * 0.8)


def _checks(u: Array, v: Array, key: Keys) -> Array:
    return np.clip(0.5 + 6.0 * (_wave(u * 0.5) - 0.5) * (_wave(v * 0.5) - 0.5) * 2, 0, 1)


def _weave(u: Array, v: Array, key: Keys) -> Array:
    over = (np.floor(u) + np.floor(v)) % 2
    return over * _wave(u + 0.5) + (1 - over) * _wave(v + 0.5)


def _spots(u: Array, v: Array, key: Keys) -> Array:
    nearest, _, tone = _cells(u, v, key)
    return np.clip((0.42 - nearest) * 5, 0, 1) * (0.6 + 0.4 * tone)


def _stones(u: Array, v: Array, key: Keys) -> Array:
    nearest, second, tone = _cells(u, v, key)
    return np.clip((second - nearest) * 4, 0, 1) * (0.45 + 0.55 * tone)


def _scales(u: Array, v: Array, key: Keys) -> Array:
    row = np.floor(v)
    x = u + 0.5 * (row % 2)
    x = x - np.floor(x) - 0.5
    y = v - row
    return np.clip(1.15 - np.sqrt(x * x * 2.2 + y * y), 0, 1)


def _bricks(u: Array, v: Array, key: Keys) -> Array:
    row = np.floor(v)
    x = u * 0.5 + 0.5 * (row % 2)
    column = np.floor(x)
    edge = np.minimum(_edge(x - column) * 2, _edge(v - row))
    tone = lattice(
        column.astype(np.int64).astype(np.uint64), row.astype(np.int64).astype(np.uint64), key
    )
    return np.clip(edge * 9 - 0.7, 0, 1) * (0.5 + 0.5 * tone)


def _edge(x: Array) -> Array:
    return np.minimum(x, 1.0 - x)


def _cells(u: Array, v: Array, key: Keys) -> tuple[Array, Array, Array]:
    """Distances to the nearest and second nearest of scattered points, and the nearest's tone."""
    iu, iv = np.floor(u), np.floor(v)
    nearest, second = np.full(u.shape, 9.0), np.full(u.shape, 9.0)
    tone = np.zeros(u.shape)
    for du in (-1.0, 0.0, 1.0):
        for dv in (-1.0, 0.0, 1.0):
            cu, cv = iu + du, iv + dv
            hu, hv = cu.astype(np.int64).astype(np.uint64), cv.astype(np.int64).astype(np.uint64)
            x = cu + 0.15 + 0.7 * lattice(hu, hv, key + np.uint64(11)) - u
            y = cv + 0.15 + 0.7 * lattice(hu, hv, key + np.uint64(12)) - v
            distance = np.sqrt(x * x + y * y)
            second = np.minimum(second, np.maximum(distance, nearest))
            tone = np.where(distance < nearest, lattice(hu, hv, key + np.uint64(13)), tone)
            nearest = np.minimum(nearest, distance)
    return nearest, second, tone


_Pattern = Callable[[Array, Array, Keys], Array]
_PATTERNS: tuple[_Pattern, ...] = (
    _clouds, _ridges, _stripes, _checks, _weave, _spots, _stones, _scales, _bricks,
)  # fmt: skip
