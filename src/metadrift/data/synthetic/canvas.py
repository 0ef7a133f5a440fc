"""Drawing many images at once from signed distances, in plain float64 arithmetic.

Pictures are functions of coordinates, not of pixels, so they look the same at every size. Only
elementwise arithmetic in double precision is used: a processor that rounds the last bit
differently moves a value by about 1e-14 of a grey level, so the rounded bytes are the same.

Letters: n images, S pixels per side, colours and light in 0..1, drawing coordinates in -1..1 with
v pointing down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Keys = NDArray[np.uint64]  # what noise depends on, [n, 1, 1]
Number = float | Array  # one for all images, or [n, 1, 1]


@dataclass(frozen=True)
class Frame:
    """Where each pixel of n images lies in the drawing.

    Parameters
    ----------
    u, v
        float64 [n, S, S], the drawing coordinates of the pixel centres.
    pixel
        float64 [n, 1, 1], the width of a pixel in these coordinates: edges are that soft.

    Examples
    --------
    >>> frame = pose(np.random.default_rng(0), images=2, size=28)
    >>> disc = frame.cover(frame.ellipse(0, 0, 0.5, 0.5))
    >>> disc.shape, float(disc[0, 14, 14]), float(disc[0, 0, 0])
    ((2, 28, 28), 1.0, 0.0)
    """

    u: Array
    v: Array
    pixel: Array

    def cover(self, distance: Array, soft: float = 1.0) -> Array:
        """How much of each pixel lies inside: 0..1 [n, S, S]."""
        return np.clip(0.5 - distance / (self.pixel * soft), 0.0, 1.0)

    def stroke(self, points: Array, width: Number) -> Array:
        """Distance to a line of half width `width` through points [n or 1, k, 2]."""
        nearest = self.segment(points[:, 0], points[:, 1], 0.0)
        for a in range(1, points.shape[1] - 1):
            nearest = np.minimum(nearest, self.segment(points[:, a], points[:, a + 1], 0.0))
        return nearest - width

    def segment(self, a: Array, b: Array, start: Number, end: Number | None = None) -> Array:
        """Distance to a segment between points [n or 1, 2], `start` thick at a and `end` at b."""
        ax, ay, bx, by = (column[:, None, None] for column in (a[:, 0], a[:, 1], b[:, 0], b[:, 1]))
        dx, dy = bx - ax, by - ay
        pu, pv = self.u - ax, self.v - ay
        along = np.clip((pu * dx + pv * dy) / (dx * dx + dy * dy + 1e-9), 0.0, 1.0)
        pu -= along * dx
        pv -= along * dy
        thick = start if end is None else start + (end - start) * along
        return np.sqrt(pu * pu + pv * pv) - thick

    def ellipse(self, x: Number, y: Number, rx: Number, ry: Number, angle: Number = 0.0) -> Array:
        """About the distance to an ellipse; `angle` in radians."""
        c, s = np.cos(angle), np.sin(angle)
        pu, pv = self.u - x, self.v - y
        a = (pu * c + pv * s) / rx
        b = (pv * c - pu * s) / ry
        length = np.sqrt(a * a + b * b)
        steep = np.sqrt((a / rx) ** 2 + (b / ry) ** 2)
        return length * (length - 1.0) / (steep + 1e-9)

    def polygon(self, points: Array) -> Array:
        """Signed distance to a polygon of points [n or 1, k, 2], any winding, may be concave."""
        inside = np.zeros(self.u.shape, bool)
        nearest = np.full(self.u.shape, 1e9)
        for a, b in zip(range(points.shape[1]), np.roll(range(points.shape[1]), -1), strict=True):
            nearest = np.minimum(nearest, self.segment(points[:, a], points[:, b], 0.0))
            ax, ay = points[:, a, 0, None, None], points[:, a, 1, None, None]
            bx, by = points[:, b, 0, None, None], points[:, b, 1, None, None]
            slope = (bx - ax) / np.where(by == ay, 1.0, by - ay)
            inside ^= ((ay > self.v) != (by > self.v)) & (self.u < ax + slope * (self.v - ay))
        return np.where(inside, -nearest, nearest)

    def moved(self, du: Number, dv: Number) -> Frame:
        """The same pixels in coordinates that are bent or shifted."""
        return Frame(self.u + du, self.v + dv, self.pixel)


def pose(
    rng: np.random.Generator,
    images: int,
    size: int,
    *,
    shift: float = 0.0,
    turn: float = 0.0,
    zoom: tuple[float, float] = (1.0, 1.0),
    squash: float = 0.0,
    flip: bool = False,
) -> Frame:
    """A frame for n images, each with its own pose: `shift`, `turn` (radians) and `squash` are
    the most that a drawing moves, turns and is flattened; `flip` mirrors half of them."""

    def each(low: float, high: float) -> Array:
        return rng.uniform(low, high, (images, 1, 1))

    x0, y0, angle, scale = each(-shift, shift), each(-shift, shift), each(-turn, turn), each(*zoom)
    wide, high = scale * each(1 - squash, 1 + squash), scale * each(1 - squash, 1 + squash)
    if flip:
        wide = wide * np.where(rng.random((images, 1, 1)) < 0.5, -1.0, 1.0)
    centres = (np.arange(size) + 0.5) * (2.0 / size) - 1.0
    x, y = centres[None, None, :] - x0, centres[None, :, None] - y0
    c, s = np.cos(angle), np.sin(angle)
    return Frame((x * c + y * s) / wide, (y * c - x * s) / high, 2.0 / size / scale)


def paint(picture: Array, cover: Array, colour: ArrayLike) -> Array:
    """Lay a colour ([3], [n, 1, 1, 3] or [n, S, S, 3]) over a picture [n, S, S, 3]."""
    return picture + cover[..., None] * (np.asarray(colour) - picture)


def value_noise(u: Array, v: Array, key: Keys) -> Array:
    """Smooth noise in 0..1 with one random value per unit cell; another `key` gives other noise."""
    fu, fv = np.floor(u), np.floor(v)
    iu, iv = fu.astype(np.int64).astype(np.uint64), fv.astype(np.int64).astype(np.uint64)
    su, sv = u - fu, v - fv
    su *= su * (3.0 - 2.0 * su)
    sv *= sv * (3.0 - 2.0 * sv)
    one = np.uint64(1)
    top, below = lattice(iu, iv, key), lattice(iu, iv + one, key)
    top += su * (lattice(iu + one, iv, key) - top)
    below += su * (lattice(iu + one, iv + one, key) - below)
    return top + sv * (below - top)


def lattice(iu: NDArray[np.uint64], iv: NDArray[np.uint64], key: Keys) -> Array:
    """A random value in 0..1 for each pair of whole numbers: an integer hash, exact anywhere."""
    h = iu * np.uint64(0x9E3779B97F4A7C15) + iv * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h + key) * np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return np.asarray(h >> np.uint64(40), np.float64) * (1.0 / (1 << 24))


def fractal(u: Array, v: Array, key: Keys, weights: Sequence[float]) -> Array:
    """Noise of several octaves in 0..1: weights[k] is the share of frequency 2**k."""
    total = np.zeros(np.broadcast_shapes(u.shape, v.shape))
    for k, weight in enumerate(weights):
        # An octave that does not start where the last did hides the lattice.
        octave = value_noise(u * 2**k + 17.3 * k, v * 2**k + 5.9 * k, key + np.uint64(k))
        total += weight / sum(weights) * octave
    return total


def keys(rng: np.random.Generator, images: int) -> Keys:
    """A noise key for each image, [n, 1, 1]."""
    return rng.integers(0, 1 << 48, (images, 1, 1), dtype=np.uint64)


def shrink(picture: Array, factor: int) -> Array:
    """Average blocks of factor x factor pixels of [n, S*factor, S*factor, ...]."""
    blocks = [picture[:, i::factor, j::factor] for i in range(factor) for j in range(factor)]
    return added(blocks) / factor**2


def added(parts: Sequence[Array]) -> Array:
    """The sum of arrays of one shape, always in the same order."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def to_bytes(picture: Array) -> NDArray[np.uint8]:
    """0..1 -> 0..255, with a channel axis if it has none."""
    if picture.ndim == 3:
        picture = picture[..., None]
    return np.floor(np.clip(picture, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
