from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from metadrift.data.images import UnreadableImageError, decode, resize_array
from metadrift.examples import Pictures

Picture = Callable[..., bytes]


def saved(image: Image.Image, form: str = "PNG", **saving: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **saving)
    return file.getvalue()


def colour(pixels: np.ndarray) -> list[int]:
    return pixels[pixels.shape[0] // 2, pixels.shape[1] // 2].tolist()


@pytest.mark.parametrize(
    ("mode", "value", "form", "expected"),
    [
        ("RGB", (255, 0, 0), "PNG", [255, 0, 0]),
        ("L", 77, "PNG", [77, 77, 77]),
        ("1", 1, "PNG", [255, 255, 255]),
        ("1", 0, "PNG", [0, 0, 0]),
        ("P", 0, "GIF", [0, 0, 0]),
        ("RGBA", (255, 0, 0, 0), "PNG", [255, 255, 255]),
        ("RGBA", (0, 0, 0, 128), "PNG", [127, 127, 127]),
        ("LA", (0, 0), "PNG", [255, 255, 255]),
        ("I;16", 40_000, "PNG", [156, 156, 156]),
        ("I;16", 40_000, "TIFF", [156, 156, 156]),
        ("CMYK", (0, 255, 255, 0), "TIFF", [255, 0, 0]),
        ("RGB", (0, 0, 255), "BMP", [0, 0, 255]),
        ("RGB", (0, 0, 255), "WEBP", [0, 0, 255]),
        ("RGB", (9, 9, 9), "PPM", [9, 9, 9]),
    ],
)
def test_every_kind_of_pixel_becomes_plain_colour(
    picture: Picture, mode: str, value: object, form: str, expected: list[int]
) -> None:
    saving = {"lossless": True} if form == "WEBP" else {}
    found = colour(decode(picture(value, form=form, mode=mode, **saving), Pictures(8, 3)))
    np.testing.assert_allclose(found, expected, atol=1)


def test_a_cmyk_jpeg_keeps_its_colours(picture: Picture) -> None:
    found = decode(picture((0, 255, 255, 0), form="JPEG", mode="CMYK"), Pictures(8, 3))
    np.testing.assert_allclose(colour(found), [255, 0, 0], atol=6)


def test_a_palette_with_a_transparent_colour_shows_white_there() -> None:
    image = Image.new("P", (10, 10), 1)
    image.putpalette([255, 0, 0, 0, 255, 0])
    clear = saved(image, "PNG", transparency=1)
    solid = saved(image, "PNG", transparency=0)
    assert colour(decode(clear, Pictures(4, 3))) == [255, 255, 255]
    assert colour(decode(solid, Pictures(4, 3))) == [0, 255, 0]


def test_grey_is_asked_for_and_given(picture: Picture) -> None:
    found = decode(picture("white"), Pictures(8, 1))
    assert found.shape == (8, 8, 1)
    assert found.min() == 255


def test_the_rotation_that_a_camera_noted_is_applied() -> None:
    image = Image.new("RGB", (40, 40), "black")
    image.paste("white", (0, 0, 40, 20))  # the upper half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned to the right by 90 degrees: white is at the right
    pixels = decode(saved(image, "JPEG", exif=exif, quality=95), Pictures(8, 1))[:, :, 0]
    assert pixels[4, 7] > 200
    assert pixels[4, 0] < 50


def test_the_first_frame_of_an_animation_counts() -> None:
    frames = [Image.new("RGB", (8, 8), name) for name in ("red", "green", "blue")]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert colour(decode(data, Pictures(4, 3))) == [255, 0, 0]


def test_a_box_and_a_strip_are_cut_in_the_files_own_pixels() -> None:
    image = Image.new("RGB", (400, 300), "black")
    image.paste("white", (100, 50, 200, 150))
    data = saved(image)
    assert decode(data, Pictures(8, 1), box=(100, 50, 200, 150)).min() == 255
    image.paste("red", (0, 280, 400, 300))
    assert decode(saved(image), Pictures(84, 3))[-1].max() > 100
    stripped = decode(saved(image), Pictures(84, 3), strip=20)
    assert (stripped[:, :, 0] == stripped[:, :, 1]).all(), "no row of red is left"


def test_a_box_is_cut_to_the_image_and_an_empty_one_is_unreadable(picture: Picture) -> None:
    assert decode(picture(), Pictures(4, 3), box=(-50, -50, 5000, 5000)).shape == (4, 4, 3)
    for box in [(15, 0, 5, 9), (500, 0, 600, 9)]:
        with pytest.raises(UnreadableImageError, match="nothing is left"):
            decode(picture(), Pictures(4, 3), box=box)
    with pytest.raises(UnreadableImageError, match="nothing is left"):
        decode(picture(size=(30, 20)), Pictures(4, 3), strip=20)


@pytest.mark.parametrize(
    ("turn", "corner"), [(0, (0, 0)), (90, (7, 0)), (180, (7, 7)), (270, (0, 7))]
)
def test_a_turn_is_exact_and_to_the_left(turn: int, corner: tuple[int, int]) -> None:
    image = Image.new("L", (8, 8), 255)
    image.putpixel((0, 0), 0)
    pixels = decode(saved(image), Pictures(8, 1), turn=turn)[:, :, 0]
    assert np.argwhere(pixels == 0).tolist() == [list(corner)]


def test_shrinking_is_antialiased_whatever_the_form() -> None:
    stripes = np.zeros((840, 840), np.uint8)
    stripes[:, ::2] = 255
    image = Image.fromarray(stripes)
    for data in (saved(image), saved(image, "JPEG", quality=95)):
        pixels = decode(data, Pictures(84, 1)).astype(int)
        assert abs(pixels - 127).max() < 12, "a stripe is not picked, but averaged"


def huge_png(side: int) -> bytes:
    """A small file that says it has side x side pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [9_000, 20_000, 100_000])
def test_absurd_sizes_are_refused_before_decoding(side: int) -> None:
    """Pillow's own limit begins between the first and the second."""
    with pytest.raises(
        UnreadableImageError, match="pixels"
    ):  # decoding would find no pixels at all
        decode(huge_png(side), Pictures(8, 1))


def test_a_whole_picture_beyond_our_limit_is_refused() -> None:
    big = Image.new("1", (9000, 9000))  # below Pillow's own limit, beyond ours
    with pytest.raises(UnreadableImageError, match="9000 x 9000 pixels"):
        decode(saved(big), Pictures(8, 1))


def test_a_file_that_would_call_an_outside_program_is_not_opened() -> None:
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n"
    with pytest.raises(UnreadableImageError, match="not an image we know"):
        decode(postscript, Pictures(8, 1))


@settings(deadline=None, max_examples=150)
@given(
    form=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]),
    keep=st.floats(0, 1, exclude_max=True),
    at=st.integers(0, 10_000),
    flip=st.integers(0, 255),
)
def test_damaged_files_give_pixels_or_a_reason(form: str, keep: float, at: int, flip: int) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8)
    data = bytearray(saved(Image.fromarray(noise), form))
    for damaged in (data[: int(keep * len(data))], data):
        if damaged:
            damaged[at % len(damaged)] ^= flip
        try:
            pixels = decode(bytes(damaged), Pictures(8, 3))
            assert pixels.shape == (8, 8, 3)
        except UnreadableImageError as error:
            assert str(error)  # noqa: PT017


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_truncated_photograph_is_not_used(form: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    data = saved(Image.fromarray(noise), form)
    with pytest.raises(UnreadableImageError):
        decode(data[: len(data) // 2], Pictures(8, 3))


def test_arrays_keep_their_pixels_when_the_size_is_right() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
    np.testing.assert_array_equal(resize_array(pixels, Pictures(8, 3)), pixels)
    np.testing.assert_array_equal(resize_array(pixels[:, :, :1], Pictures(8, 1)), pixels[:, :, :1])
    assert resize_array(pixels[:, :, 0], Pictures(4, 3)).shape == (4, 4, 3)
