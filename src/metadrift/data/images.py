"""One image file, or one array, to a small uint8 square.

Images are squashed to a square, as the few-shot loaders of miniImageNet, CUB and Omniglot do. The
filter is Lanczos. At 28 or 84 px it keeps more of the fine strokes and markings that tell classes
apart than box or bilinear filtering.
"""

from __future__ import annotations

import errno
import io
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from metadrift.examples import Pictures

MAX_PIXELS = 64_000_000  # 8000 x 8000: far more than any image of these datasets
MAX_FILE_BYTES = 256 * 2**20

# Only formats that are plain pixels. Pillow would also open some that call outside programs.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm")

Box = tuple[int, int, int, int]


class UnreadableImageError(Exception):
    """This one image cannot be used; the text says why."""


def decode(
    data: bytes, form: Pictures, *, box: Box | None = None, strip: int = 0, turn: int = 0
) -> NDArray[np.uint8]:
    """An image file's bytes to uint8 [size, size, channels].

    Parameters
    ----------
    data
        A whole file. Of an animation the first frame counts.
    form
        The size and the channels wanted.
    box
        Left, top, right, bottom in the file's own pixels: what is outside is cut away.
    strip
        How many rows of the file's own pixels are cut away at the bottom.
    turn
        Degrees to turn to the left: 0, 90, 180 or 270.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (40, 30), "red").save(file, "PNG")
    >>> pixels = decode(file.getvalue(), Pictures(8, 3))
    >>> pixels.shape, pixels[0, 0].tolist()
    ((8, 8, 3), [255, 0, 0])
    """
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableImageError(f"more than {MAX_FILE_BYTES >> 20} MiB in one image file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata, which we do not use
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                return _square(image, form, box, strip, turn)
    except UnidentifiedImageError:
        raise UnreadableImageError("empty" if not data else "not an image we know") from None
    except Image.DecompressionBombError as error:
        raise UnreadableImageError(str(error)) from None
    except UnreadableImageError:
        raise
    except Exception as error:  # decoders raise many kinds of errors on damaged bytes
        raise UnreadableImageError(str(error) or type(error).__name__) from None


def read_image_file(path: Path) -> bytes:
    """The bytes of an image file; devices and pipes, which might never end, are refused."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "it is not a file", str(path))
    with open(path, "rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def resize_array(pixels: NDArray[np.uint8], form: Pictures) -> NDArray[np.uint8]:
    """uint8 [H, W] or [H, W, 1 or 3] to uint8 [size, size, channels]."""
    flat = pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    return _as_array(Image.fromarray(np.ascontiguousarray(flat)), form)


def _square(
    image: Image.Image, form: Pictures, box: Box | None, strip: int, turn: int
) -> NDArray[np.uint8]:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise UnreadableImageError(f"{width} x {height} pixels are more than {MAX_PIXELS}")
    if box is None and strip == 0:
        # JPEG decodes several times faster at 1/2, 1/4 or 1/8; Lanczos does the rest from there
        image.draft(None, (2 * form.size, 2 * form.size))
    image.load()
    if box is not None or strip:
        left, top, right, bottom = box or (0, 0, width, height)
        inside = (max(left, 0), max(top, 0), min(right, width), min(bottom, height - strip))
        if inside[0] >= inside[2] or inside[1] >= inside[3]:
            raise UnreadableImageError(
                f"nothing is left of {width} x {height} pixels after the cut"
            )
        image = image.crop(inside)
    ImageOps.exif_transpose(image, in_place=True)
    pixels = _as_array(_plain(image), form)
    return np.rot90(pixels, turn // 90)  # after resizing, all turns have the same pixels


def _plain(image: Image.Image) -> Image.Image:
    """Any of Pillow's modes to L or RGB; what is transparent becomes white."""
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise UnreadableImageError("its grey values are beyond 16 bits")
        return Image.fromarray((values >> 8).astype(np.uint8))
    if image.mode == "F":
        raise UnreadableImageError("its pixels are floating-point numbers, not 8 or 16 bits")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        above = image.convert("RGBA")
        image = Image.new("RGBA", above.size, "white")
        image.alpha_composite(above)
    return _converted(image, "L" if image.mode in ("1", "L") else "RGB")


def _as_array(image: Image.Image, form: Pictures) -> NDArray[np.uint8]:
    image = _converted(image, "L" if form.channels == 1 else "RGB")
    if image.size != (form.size, form.size):
        image = image.resize((form.size, form.size), Image.Resampling.LANCZOS)
    return np.asarray(image, np.uint8).reshape(form.size, form.size, form.channels)


def _converted(image: Image.Image, mode: str) -> Image.Image:
    return image if image.mode == mode else image.convert(mode)  # convert would copy
