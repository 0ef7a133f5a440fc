"""Reading untrusted files: every fault in one gives one clear error.

The checks: the kind of file, its size, its text (UTF-8 without lone surrogates), its depth, and
that numbers are finite and not too long.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tomllib
from importlib import resources
from importlib.resources.abc import Traversable
from io import BufferedReader
from pathlib import Path
from typing import Any

from metadrift.errors import MetadriftError

SETTINGS = 2**20  # bytes that a file of settings may have
RECORD = 2**26  # a summary, a checkpoint's state, a pack's description
LOG = 2**30  # the lines of a run
_DIGITS = 4300  # of a whole number; the most that Python reads
# A pipe without a writer would block the opening for ever.
_HOW_TO_OPEN = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_text(path: Path, limit: int = SETTINGS) -> str:
    """The text of a regular file of at most `limit` bytes."""
    return as_text(read_bytes(path, limit), str(path))


def read_json(path: Path, limit: int = RECORD, *, finite: bool = True) -> dict[str, Any]:
    """The object that a JSON file holds; `finite` refuses NaN and infinity."""
    value = parse_json(read_text(path, limit), str(path), finite=finite)
    if not isinstance(value, dict):
        raise MetadriftError(f"{path} must hold a JSON object")
    return value


def read_toml(path: Path, limit: int = SETTINGS) -> dict[str, Any]:
    """The table that a TOML file holds."""
    return parse_toml(read_text(path, limit), str(path))


def toml_files(package: str, folder: str) -> dict[str, Traversable]:
    """The TOML files in a folder of this package, by name."""
    files = resources.files(package).joinpath(folder).iterdir()
    return {f.name.removesuffix(".toml"): f for f in files if f.name.endswith(".toml")}


def read_json_lines(
    path: Path, limit: int = LOG, damaged: list[str] | None = None
) -> list[dict[str, Any]]:
    """The objects of a file with one per line; a last line without an end is left out.

    A damaged line is refused, or left out and named in the list `damaged` where one is given.
    """
    found = []
    for number, line in enumerate(read_bytes(path, limit).split(b"\n")[:-1], 1):
        where = f"{path}, line {number}:"
        try:
            value = parse_json(as_text(line, where), where)
            if not isinstance(value, dict):
                raise MetadriftError(f"{where} must hold a JSON object")
            found.append(value)
        except MetadriftError as error:
            if damaged is None:
                raise
            damaged.append(str(error))
    return found


def read_bytes(path: Path, limit: int) -> bytes:
    """All of a regular file of at most `limit` bytes; pipes and devices are refused."""
    with open_regular(path) as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            raise MetadriftError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > limit:
        raise MetadriftError(
            f"{path} is larger than {limit / 2**20:g} MiB, which no file of its kind should be"
        )
    return data


def open_regular(path: Path) -> BufferedReader:
    """A regular file to read; a pipe, a device or a folder is refused and never waited for."""
    try:
        handle = os.open(path, _HOW_TO_OPEN)
    except FileNotFoundError:
        raise MetadriftError(f"{path} is missing") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise MetadriftError(f"{path} cannot be read: {why}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise MetadriftError(f"{path} is not a regular file")
    return os.fdopen(handle, "rb")


def as_text(data: bytes, where: str) -> str:
    """Bytes as UTF-8 text."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MetadriftError(f"{where} is not UTF-8 text: byte {error.start} is wrong") from None


def parse_json(text: str, where: str, *, finite: bool = True) -> Any:
    """The value of a JSON text.

    Examples
    --------
    >>> parse_json('{"a": [1, 2.5]}', "x.json")
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1e999}', "x.json")
    Traceback (most recent call last):
    metadrift.errors.MetadriftError: x.json cannot be read as JSON: 1e999 is not a finite number
    """

    def number(digits: str) -> float:
        value = float(digits)
        if finite and not math.isfinite(value):
            raise ValueError(f"{digits} is not a finite number")
        return value

    try:
        value = json.loads(text, parse_float=number, parse_constant=number, parse_int=_whole)
    except RecursionError:
        raise MetadriftError(f"{where} cannot be read as JSON: it is nested too deeply") from None
    except ValueError as error:
        raise MetadriftError(f"{where} cannot be read as JSON: {error}") from None
    if "\\ud" in text.lower():
        _refuse_half_characters(value, where)
    return value


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The table of a TOML text."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise MetadriftError(f"{where} cannot be read as TOML: it is nested too deeply") from None
    except ValueError as error:
        why = error if isinstance(error, tomllib.TOMLDecodeError) else "a number is too long"
        raise MetadriftError(f"{where} cannot be read as TOML: {why}") from None


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"the number {digits[:9]}... has {len(digits)} digits")
    return int(digits)


def _refuse_half_characters(value: Any, where: str) -> None:
    """JSON can write one half of a surrogate pair, which no text can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MetadriftError(f"{where} holds half of a character, a lone surrogate") from None
