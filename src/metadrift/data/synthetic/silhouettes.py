"""Silhouettes: plane-like shapes against the sky, told apart by their outline alone.

A class is a type of plane: where its wings are, how they sweep and taper, its tail and its engines.
Each image has another heading, bank, distance, paint, light and weather.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metadrift.data.synthetic.canvas import Array, Frame, fractal, keys, paint, pose, to_bytes

# Skies from the top to the horizon.
_SKIES = np.array(
    [
        [(0.20, 0.42, 0.74), (0.62, 0.78, 0.92)],
        [(0.45, 0.62, 0.82), (0.86, 0.90, 0.94)],
        [(0.58, 0.62, 0.68), (0.80, 0.82, 0.84)],
        [(0.30, 0.34, 0.58), (0.94, 0.66, 0.44)],
        [(0.36, 0.48, 0.66), (0.96, 0.84, 0.62)],
        [(0.12, 0.20, 0.42), (0.46, 0.56, 0.76)],
    ]
)


def draw_class(index: int, rng: np.random.Generator, images: int, size: int) -> NDArray[np.uint8]:
    """uint8 [images, size, size, 3]."""
    plane = _plane(rng)
    sky = _sky(rng, images, size)
    frame = pose(rng, images, size, shift=0.12, turn=0.28, zoom=(0.84, 1.1), squash=0.08, flip=True)
    # A bank to one side shortens the wings and leans them along the hull.
    bank = rng.uniform(0.7, 1.0, (images, 1, 1))
    frame = Frame(
        frame.u + rng.uniform(-0.12, 0.12, (images, 1, 1)) * frame.v, frame.v / bank, frame.pixel
    )
    paint_tone = rng.uniform(0.06, 0.34, (images, 1, 1, 1)) * rng.uniform(
        0.85, 1.15, (images, 1, 1, 3)
    )
    side = 1.0 + rng.uniform(-0.5, 0.5, (images, 1, 1)) * np.clip(frame.v * 4, -0.5, 0.5)
    picture = paint(sky, _outline(frame, plane), paint_tone * side[..., None])
    haze = rng.uniform(0.0, 0.2, (images, 1, 1, 1))
    picture = picture + haze * (sky - picture)
    return to_bytes(picture + rng.uniform(-0.015, 0.015, picture.shape))


@dataclass(frozen=True)
class _Wing:
    """One pair: root at `x` along the hull, tips `span` out and `sweep` back."""

    x: float
    span: float
    sweep: float
    root: float
    tip: float


@dataclass(frozen=True)
class _Plane:
    nose: float
    tail: float
    hull: float
    point: float  # thickness of the nose
    wings: tuple[_Wing, ...]
    engines: tuple[float, ...]  # places along the span
    engine_size: float
    rear_engines: bool
    booms: bool


def _plane(rng: np.random.Generator) -> _Plane:
    nose, tail = rng.uniform(0.58, 0.88), rng.uniform(0.55, 0.85)
    delta = rng.random() < 0.25
    root = rng.uniform(0.55, 0.85) if delta else rng.uniform(0.18, 0.36)
    main = _Wing(
        x=rng.uniform(-0.25, 0.05) if delta else rng.uniform(-0.1, 0.2),
        span=rng.uniform(0.4, 0.65) if delta else rng.uniform(0.66, 0.94),
        sweep=root * 0.8 if delta else rng.uniform(-0.1, 0.5),
        root=root,
        tip=rng.uniform(0.02, 0.1) if delta else rng.uniform(0.2, 0.9) * root,
    )
    wings = [main]
    if not delta or rng.random() < 0.3:
        span = rng.uniform(0.2, 0.42)
        wings.append(
            _Wing(
                -tail + rng.uniform(0.08, 0.2),
                span,
                rng.uniform(0.0, 0.3),
                rng.uniform(0.12, 0.24),
                0.1,
            )
        )
    if rng.random() < 0.22:
        wings.append(
            _Wing(nose * 0.65, rng.uniform(0.18, 0.34), rng.uniform(0.0, 0.15), 0.16, 0.06)
        )
    count = rng.choice([0, 1, 2]) if not delta else 0
    return _Plane(
        nose=nose,
        tail=tail,
        hull=rng.uniform(0.06, 0.12),
        point=rng.uniform(0.0, 0.08),
        wings=tuple(wings),
        engines=tuple(np.linspace(0.35, 0.62, count) if count > 1 else [0.4] * count),
        engine_size=rng.uniform(0.045, 0.08),
        rear_engines=bool(rng.random() < 0.2),
        booms=bool(rng.random() < 0.12),
    )


def _outline(frame: Frame, plane: _Plane) -> Array:
    """The shape from above, nose to the right: cover [n, S, S]."""
    # Both halves are the same, so one half is drawn on folded coordinates.
    half = Frame(frame.u, np.abs(frame.v), frame.pixel)

    def rod(x0: float, y0: float, x1: float, y1: float, start: float, end: float) -> Array:
        return half.segment(np.array([[x0, y0]]), np.array([[x1, y1]]), start, end)

    middle = 0.15 * plane.nose
    distance = np.minimum(
        rod(middle, 0.0, plane.nose, 0.0, plane.hull, plane.point),
        rod(middle, 0.0, -plane.tail, 0.0, plane.hull, 0.03),
    )
    for wing in plane.wings:
        back = wing.x - wing.sweep
        corners = [
            (wing.x + wing.root / 2, 0.0), (back + wing.tip / 2, wing.span),
            (back - wing.tip / 2, wing.span), (wing.x - wing.root / 2, 0.0),
        ]  # fmt: skip
        distance = np.minimum(distance, half.polygon(np.array([corners])) - 0.01)
    main = plane.wings[0]
    for place in plane.engines:
        x, y = main.x - main.sweep * place, main.span * place
        front = x + main.root * 0.45 + 0.08
        distance = np.minimum(distance, rod(x, y, front, y, plane.engine_size, plane.engine_size))
    if plane.rear_engines:
        back = -plane.tail + 0.3
        y = plane.hull + 0.08
        distance = np.minimum(distance, rod(back, y, back + 0.18, y, 0.06, 0.06))
    if plane.booms:
        y = main.span * 0.32
        distance = np.minimum(distance, rod(main.x, y, -plane.tail + 0.1, y, 0.045, 0.03))
    return frame.cover(distance)


def _sky(rng: np.random.Generator, images: int, size: int) -> Array:
    frame = pose(rng, images, size, turn=0.15)
    key = keys(rng, images)
    top, horizon = np.moveaxis(_SKIES[rng.integers(len(_SKIES), size=images)], 1, 0)[
        :, :, None, None
    ]
    fall = np.clip(frame.v * 0.5 + 0.5 + rng.uniform(-0.3, 0.3, (images, 1, 1)), 0, 1)[..., None]
    picture = top + fall * (horizon - top)
    cloud = fractal(frame.u * 1.6, frame.v * 3.2, key, (4, 2, 1))
    amount = rng.uniform(-0.25, 0.25, (images, 1, 1))
    cloud = np.clip((cloud - 0.5 + amount) * 2.5, 0, 0.85)
    white = 0.55 + 0.45 * horizon
    picture = paint(
        picture,
        cloud,
        white
        * (0.85 + 0.3 * fractal(frame.u * 3, frame.v * 3, key + np.uint64(5), (1,)))[..., None],
    )
    return picture * rng.uniform(0.85, 1.1, (images, 1, 1, 1))
