"""Atomic writing: a reader finds the old file or folder or the new one, never half of one."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from metadrift.errors import MetadriftError
from metadrift.storage.lock import lock


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name, then rename it."""
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)  # mkstemp makes it private
        put_in_place(Path(temporary), path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically; NaN and infinity become null."""
    write_atomically(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def open_without_links(path: Path, mode: str) -> IO[bytes]:
    """Open a file, but refuse to follow a link that somebody may have put there.

    Windows has no such protection; there links are followed.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)

    return cast(IO[bytes], open(path, mode, opener=opener))


def put_in_place(temporary: Path, path: Path) -> None:
    """Give a whole file its name; an old file of that name is replaced."""
    flush(temporary)
    os.replace(temporary, path)
    flush(path.parent)


@contextmanager
def whole_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """As `new_folder`, for a path that other programs may write too: they get an error.

    What a killed program left behind is removed first.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with whole_folder(Path(home, "pets")) as folder:
    ...         _ = (folder / "cat").write_text("meow")
    ...     [entry.name for entry in Path(home).iterdir()], Path(home, "pets", "cat").read_text()
    (['pets'], 'meow')
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock(path.parent / f".{path.name}.lock", f"{path} is being written"):
        remove_unfinished(path.parent, re.escape(path.name))
        with new_folder(path, replace) as temporary:
            yield temporary


@contextmanager
def new_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A temporary folder beside `path` that takes its name when it is whole.

    The caller must be the only writer of `path`. After an error nothing of the new folder stays.
    """
    if path.exists() and not replace:
        raise MetadriftError(f"{path} exists already; remove it or ask to replace it")
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.new.", dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o755)  # mkdtemp makes it private
        flush(*(entry for entry in temporary.rglob("*") if entry.is_file()), temporary)
        if path.exists():
            # A folder cannot be renamed onto a filled one, so the old one is moved away first.
            aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
            path.rename(aside / path.name)
            temporary.rename(path)
            shutil.rmtree(aside, ignore_errors=True)
        else:
            temporary.rename(path)
        flush(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_unfinished(parent: Path, names: str) -> None:
    """Remove the temporary folders of killed programs in `parent`, by a pattern of their names.

    A folder that was moved away for a new one is restored. The caller must be the only writer.
    """
    pattern = re.compile(rf"\.({names})\.(new|old)\.[^.]+")
    for left in list(parent.iterdir()):
        found = pattern.fullmatch(left.name)
        if found is None:
            continue
        path = parent / found[1]
        if (left / path.name).exists() and not path.exists():
            (left / path.name).rename(path)  # killed between the two renames
        shutil.rmtree(left, ignore_errors=True)


def flush(*paths: Path) -> None:
    """Wait until these files and folders are on the disk; a rename alone does not do that."""
    for path in paths:
        if path.is_dir() and os.name == "nt":
            continue  # Windows cannot open a folder, and does not need to
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_folder_name(name: str) -> bool:
    """True if a name stays inside the folder that it is put into.

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
