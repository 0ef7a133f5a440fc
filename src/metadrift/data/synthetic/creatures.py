"""Creatures: animals of one build with fine differences, on cluttered ground.

A class is a species: the lengths of its parts, its plumage and its markings. Each image shows
another animal of it: facing left or right, leaning, nearer, in other light, among leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metadrift.data.synthetic.canvas import Array, Frame, fractal, keys, paint, pose, to_bytes

# All species share these coats, and differ in which part wears which.
_COATS = np.array(
    [
        (0.40, 0.27, 0.17), (0.70, 0.55, 0.36), (0.14, 0.13, 0.15), (0.92, 0.90, 0.84),
        (0.50, 0.52, 0.54), (0.76, 0.32, 0.14), (0.24, 0.38, 0.62), (0.80, 0.66, 0.20),
    ]
)  # fmt: skip
_BILLS = np.array([(0.14, 0.13, 0.15), (0.85, 0.60, 0.15), (0.75, 0.22, 0.14), (0.5, 0.5, 0.5)])
_GROUNDS = np.array(
    [
        (0.22, 0.34, 0.14), (0.36, 0.44, 0.20), (0.40, 0.32, 0.22), (0.56, 0.50, 0.38),
        (0.50, 0.62, 0.72), (0.70, 0.74, 0.72), (0.28, 0.36, 0.40), (0.62, 0.58, 0.30),
    ]
)  # fmt: skip


def draw_class(index: int, rng: np.random.Generator, images: int, size: int) -> NDArray[np.uint8]:
    """uint8 [images, size, size, 3]."""
    species = _species(rng)
    picture = _ground(rng, images, size)
    frame = pose(rng, images, size, shift=0.22, turn=0.38, zoom=(0.8, 1.2), squash=0.1, flip=True)
    picture = _animal(picture, frame, species, rng)
    front = pose(rng, images, size)
    for _ in range(2):
        picture = _leaf(picture, front, rng, edge=True)
    light = rng.uniform(0.68, 1.25, (images, 1, 1, 1)) * rng.uniform(0.85, 1.15, (images, 1, 1, 3))
    picture = picture * light
    return to_bytes(picture + rng.uniform(-0.02, 0.02, picture.shape))


@dataclass(frozen=True)
class _Species:
    length: float
    height: float
    neck: float
    head: float
    bill: float
    bill_bend: float
    tail: float
    tail_lift: float
    tail_fan: float
    leg: float
    wing: float
    crest: float
    coat: Array
    wing_coat: Array
    belly_coat: Array
    head_coat: Array
    mark_coat: Array
    bill_coat: Array
    marks: NDArray[np.bool_]  # cap, wing bars, body stripes, spots, collar, tail tip, mask


def _species(rng: np.random.Generator) -> _Species:
    coat = [np.clip(_COATS[c] + rng.uniform(-0.05, 0.05, 3), 0, 1) for c in rng.permutation(8)]
    return _Species(
        length=rng.uniform(0.36, 0.52),
        height=rng.uniform(0.2, 0.34),
        neck=rng.uniform(0.02, 0.26),
        head=rng.uniform(0.13, 0.2),
        bill=rng.uniform(0.1, 0.36),
        bill_bend=rng.uniform(-0.05, 0.12),
        tail=rng.uniform(0.15, 0.5),
        tail_lift=rng.uniform(-0.35, 0.25),
        tail_fan=rng.uniform(0.04, 0.16),
        leg=rng.uniform(0.12, 0.42),
        wing=rng.uniform(0.6, 1.0),
        crest=rng.uniform(0.1, 0.25) * (rng.random() < 0.4),
        coat=coat[0],
        wing_coat=coat[1] if rng.random() < 0.6 else coat[0] * 0.7,
        belly_coat=coat[2] if rng.random() < 0.5 else coat[0] * 0.6 + 0.35,
        head_coat=coat[3] if rng.random() < 0.5 else coat[0],
        mark_coat=coat[4],
        bill_coat=_BILLS[rng.integers(len(_BILLS))],
        marks=rng.random(7) < 0.4,
    )


def _animal(picture: Array, frame: Frame, s: _Species, rng: np.random.Generator) -> Array:
    n = len(picture)

    def each(spread: float) -> Array:
        return rng.uniform(-spread, spread, n)

    def point(x: Array | float, y: Array | float) -> Array:
        return np.stack(np.broadcast_arrays(x + np.zeros(n), y), 1)

    shade = (1.12 - 0.34 * np.clip(frame.v + 0.3, -0.6, 1.0))[..., None]
    shade = shade * (0.9 + 0.2 * fractal(frame.u * 5, frame.v * 5, keys(rng, n), (1, 1)))[..., None]

    def lay(under: Array, cover: Array, colour: Array) -> Array:
        return paint(under, cover, colour * shade)

    cap, bars, stripes, spots, collar, tip, mask = s.marks
    nod = each(0.1)
    head = point(s.length * 0.8 + s.neck * 0.6 + nod, -s.height * 0.75 - s.neck + each(0.06))
    rump = point(-s.length * 0.8, -0.03)
    lift = s.tail_lift + each(0.15)
    end = point(-s.length * 0.8 - s.tail, lift)
    for x in (-0.06, 0.1):
        foot = point(x + each(0.08), s.height + s.leg)
        legs = frame.segment(point(x, s.height * 0.6), foot, 0.022)
        picture = lay(picture, frame.cover(legs), s.bill_coat * 0.8)
    tail = frame.cover(frame.segment(rump, end, 0.09, s.tail_fan))
    picture = lay(picture, tail, s.wing_coat)
    if tip:
        picture = lay(
            picture, tail * frame.cover(frame.u - (end[:, 0, None, None] + 0.12)), s.mark_coat
        )
    neck = frame.segment(
        point(s.length * 0.45, -s.height * 0.2), head, s.height * 0.6, s.head * 0.8
    )
    picture = lay(picture, frame.cover(neck), s.coat)
    body_distance = frame.ellipse(0.0, 0.0, s.length, s.height, -0.12)
    body = frame.cover(body_distance)
    picture = lay(picture, body, s.coat)
    belly = body * frame.cover(0.25 * s.height - frame.v + 0.15 * frame.u, soft=3.0)
    picture = lay(picture, belly, s.belly_coat)
    if stripes:
        wave = np.abs(2 * (frame.u * 3.4 - np.floor(frame.u * 3.4)) - 1) - 0.45
        picture = lay(picture, body * frame.cover(wave * 0.15), s.mark_coat)
    bill_end = point(head[:, 0] + s.head + s.bill, head[:, 1] + 0.03 + s.bill_bend)
    picture = lay(
        picture, frame.cover(frame.segment(head, bill_end, s.head * 0.6, 0.012)), s.bill_coat
    )
    hx, hy = head[:, 0, None, None], head[:, 1, None, None]
    if s.crest:
        tuft = frame.segment(
            head, point(head[:, 0] - s.crest * 1.3, head[:, 1] - s.crest - 0.08), s.head * 0.7, 0.02
        )
        picture = lay(picture, frame.cover(tuft), s.mark_coat)
    skull = frame.cover(frame.ellipse(hx, hy, s.head, s.head * 0.94))
    picture = lay(picture, skull, s.head_coat)
    if cap:
        picture = lay(picture, skull * frame.cover(frame.v - hy + s.head * 0.25), s.mark_coat)
    if mask:
        picture = lay(
            picture, skull * frame.cover(np.abs(frame.v - hy) - s.head * 0.3), s.mark_coat * 0.35
        )
    if collar:
        ring = frame.segment(np.add(head, (-0.16, 0.1)), np.add(head, (0.08, 0.22)), 0.045)
        picture = lay(picture, frame.cover(ring), s.mark_coat)
    flap = (rng.uniform(-0.5, 0.3, n) * (rng.random(n) < 0.35))[:, None, None]
    wing_distance = frame.ellipse(
        -0.1 * s.length,
        -0.12 * s.height,
        s.length * 0.72 * s.wing,
        s.height * 0.6 * s.wing,
        0.14 + flap,
    )
    wing = frame.cover(wing_distance)
    picture = lay(picture, wing, s.wing_coat)
    if bars:
        slope = frame.u + 0.5 * frame.v
        edge = np.minimum(np.abs(slope + 0.2), np.abs(slope - 0.02)) - 0.04
        picture = lay(picture, wing * frame.cover(edge), s.mark_coat)
    if spots:
        across, down = frame.u * 6.5, frame.v * 6.5
        across, down = across - np.floor(across) - 0.5, down - np.floor(down) - 0.5
        dots = frame.cover((np.sqrt(across * across + down * down) - 0.3) / 6.5)
        picture = lay(picture, np.maximum(body, wing) * dots, s.mark_coat)
    eye = frame.ellipse(hx + s.head * 0.3, hy - s.head * 0.15, 0.045, 0.045)
    picture = paint(picture, frame.cover(eye - 0.02), (0.95, 0.93, 0.85))
    return paint(picture, frame.cover(eye + 0.012), (0.03, 0.03, 0.03))


def _ground(rng: np.random.Generator, images: int, size: int) -> Array:
    """Two colours of ground in drifts, with branches and leaves out of focus."""
    frame = pose(rng, images, size, turn=3.1, zoom=(0.6, 1.4))
    key = keys(rng, images)
    first, second = _GROUNDS[rng.integers(len(_GROUNDS), size=(2, images))][:, :, None, None, :]
    drift = np.clip((fractal(frame.u * 2, frame.v * 2, key, (3, 2, 1)) - 0.5) * 2.4 + 0.5, 0, 1)
    picture: Array = first + drift[..., None] * (second - first)
    picture = (
        picture
        * (0.78 + 0.44 * fractal(frame.u * 6, frame.v * 6, key + np.uint64(9), (1,)))[..., None]
    )
    for _ in range(2):
        ends = rng.uniform(-1.3, 1.3, (2, images, 2))
        branch = frame.segment(ends[0], ends[1], rng.uniform(0.02, 0.1, (images, 1, 1)), 0.02)
        tone = _GROUNDS[rng.integers(len(_GROUNDS), size=images)][:, None, None, :]
        picture = paint(picture, frame.cover(branch, soft=2.0), tone * 0.6)
    for _ in range(4):
        picture = _leaf(picture, frame, rng, edge=False)
    return picture


def _leaf(picture: Array, frame: Frame, rng: np.random.Generator, edge: bool) -> Array:
    n = len(picture)
    at = rng.uniform(-1.1, 1.1, (2, n, 1, 1))
    if edge:  # leaves in front stay near the border, where they hide little
        at[0] = np.where(at[0] < 0, -1.0, 1.0) + 0.15 * at[0]
    long, turn = rng.uniform(0.12, 0.34, (n, 1, 1)), rng.uniform(0, np.pi, (n, 1, 1))
    leaf = frame.ellipse(at[0], at[1], long, long * 0.45, turn)
    tone = _GROUNDS[rng.integers(4, size=n)] * rng.uniform(0.6, 1.7, (n, 1))
    return paint(picture, frame.cover(leaf, soft=1.5), tone[:, None, None, :])
