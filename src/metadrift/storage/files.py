"""Writing so that a reader finds the old file or the new one, never half of one."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from metadrift.errors import MetadriftError


def write_atomically(path: Path, text: str) -> None:
    """Write a text file under a temporary name, then rename it."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def flush(*paths: Path) -> None:
    """Have the disk hold these files and folders before going on: a rename alone does not."""
    for path in paths:
        if path.is_dir() and os.name == "nt":
            continue  # Windows cannot open a folder, and needs no such thing
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; NaN and infinity become null."""
    write_atomically(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, with one sentence when that fails."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MetadriftError(f"{path} is missing") from None
    except (ValueError, OSError, RecursionError) as error:
        raise MetadriftError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise MetadriftError(f"{path} must hold a JSON object")
    return value


def is_folder_name(name: str) -> bool:
    """Whether a name stays inside the folder it is put into.

    Examples
    --------
    >>> is_folder_name("porch camera"), is_folder_name("../porch"), is_folder_name("..")
    (True, False, False)
    """
    return name not in ("", ".", "..") and not set(name) & set("/\\\0")


def plain(value: Any) -> Any:
    """The same value as JSON can hold it: NaN and infinity become null, paths become text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, Path):
        return str(value)
    return value
