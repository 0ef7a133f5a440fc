"""Glyphs: characters of many alphabets, dark on white, across the fonts that matplotlib ships.

A class is a character. Each image takes one of the fonts that have it, upright or slanted, light
or bold, and then shifts, turns, shears and bends it and thins or thickens its strokes.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont, features

from metadrift.data.synthetic.canvas import Array, added, fractal, keys, pose, shrink, to_bytes

# Chosen to differ in shape, since Latin, Greek and Cyrillic share many capitals.
CHARACTERS = (
    "ABDEFGHKLMNPQRSTWXYZ"
    "abdefghkqrty"
    "23459&@#%$?§"
    "ΔΛΞΠΣΦΨΩβγδζθλξω"
    "БДЖИЛЦЧЭЮЯ"
    "ԲԳԴԶԸԹԺԽԾԿՁՂՃՖ"
    "აბგდვზთკმნპრტფქშ"
)
_FONTS = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
)
_SHEET = 96  # pixels of the master drawing of a character
_SUPERSAMPLE = 2


def draw_class(index: int, rng: np.random.Generator, images: int, size: int) -> NDArray[np.uint8]:
    """uint8 [images, size, size, 1]."""
    # Neighbours in the list go to different splits: 37 and 100 have no common divisor.
    masters = np.stack(_masters(CHARACTERS[index * 37 % len(CHARACTERS)]))
    font = rng.integers(len(masters), size=(images, 1, 1))
    frame = pose(
        rng, images, size * _SUPERSAMPLE, shift=0.11, turn=0.16, zoom=(1.15, 1.45), squash=0.1
    )
    key = keys(rng, images)
    bend = [
        fractal(frame.u * 1.5 + 9, frame.v * 1.5 + 9, key + np.uint64(k), (1,)) - 0.5
        for k in (0, 7)
    ]
    shear = rng.uniform(-0.15, 0.15, (images, 1, 1))
    frame = frame.moved(0.22 * bend[0] + shear * frame.v, 0.22 * bend[1])
    depth = _sample(masters, font, frame.u, frame.v)
    level = rng.uniform(0.28, 0.5, (images, 1, 1))
    ink = np.clip((depth - level) * 6.0 + 0.5, 0.0, 1.0)
    tone = rng.uniform(0.82, 1.0, (images, 1, 1))
    return to_bytes(shrink(1.0 - tone * ink, _SUPERSAMPLE))


@cache
def drawn_with() -> str:
    """What beside the generator's version decides the bytes: the fonts, and what draws them."""
    digest = hashlib.sha256()
    for name in _FONTS:
        digest.update((_folder() / f"{name}.ttf").read_bytes())
    freetype = features.version_module("freetype2")
    return f"Pillow {PIL.__version__}, FreeType {freetype}, fonts {digest.hexdigest()[:12]}"


@cache
def _masters(character: str) -> list[Array]:
    """The character in every font that has it, softened so that a threshold sets its weight."""
    return [_master(name, character) for name in _FONTS if _has(name, character)]


def _master(name: str, character: str) -> Array:
    font = _font(name)
    left, top, right, bottom = font.getbbox(character)
    sheet = Image.new("L", (_SHEET, _SHEET))
    corner = ((_SHEET - left - right) // 2, (_SHEET - top - bottom) // 2)
    ImageDraw.Draw(sheet).text(corner, character, fill=255, font=font)
    return _soften(_soften(np.asarray(sheet, np.float64) / 255.0))


def _soften(sheet: Array) -> Array:
    """A 5 x 5 mean: about half a thin stroke."""
    padded = np.pad(sheet, 2)
    rows = added([padded[k : k + _SHEET] for k in range(5)])
    return added([rows[:, k : k + _SHEET] for k in range(5)]) / 25.0


@cache
def _font(name: str) -> ImageFont.FreeTypeFont:
    # The basic layout is in every build of Pillow; the other one is not.
    return ImageFont.truetype(
        str(_folder() / f"{name}.ttf"), size=62, layout_engine=ImageFont.Layout.BASIC
    )


@cache
def _folder() -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


@cache
def _nothing(name: str) -> bytes:
    return bytes(_font(name).getmask("\uffff"))


def _has(name: str, character: str) -> bool:
    return bytes(_font(name).getmask(character)) != _nothing(name)


def _sample(masters: Array, font: NDArray[np.int64], u: Array, v: Array) -> Array:
    """Read the masters [fonts, 96, 96] at drawing coordinates, linearly between pixels."""
    x = np.clip((u + 1.0) * (_SHEET / 2) - 0.5, 0.0, _SHEET - 1.001)
    y = np.clip((v + 1.0) * (_SHEET / 2) - 0.5, 0.0, _SHEET - 1.001)
    column, row = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    fx, fy = x - column, y - row
    above = masters[font, row, column] * (1 - fx) + masters[font, row, column + 1] * fx
    below = masters[font, row + 1, column] * (1 - fx) + masters[font, row + 1, column + 1] * fx
    return above * (1 - fy) + below * fy
