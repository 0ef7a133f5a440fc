"""Refuse unsafe archives before reading any of their files.

An archive is refused if it holds a name that leads out of it, a link, or anything else that is not
a plain file. No dataset here has these. An archive that unpacks to a huge size is refused too.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from metadrift.errors import MetadriftError

MAX_MEMBER_BYTES = 16 * 2**30
MAX_TOTAL_BYTES = 1024 * 2**30
MAX_NAMES = 20_000_000
MAX_SWELLING = 200  # times the archive's size, beyond 1 GiB; images hardly compress
MAX_AT_ONCE = 2**30  # of a compressed tar, whose files can only be read whole
MAX_HEADER_BYTES = 2**20  # a tar header with its long names and attributes


class ArchiveCheck:
    """Checks each member of an archive once, and adds up their sizes."""

    def __init__(self, path: Path) -> None:
        self.path, self.total, self.seen = path, 0, set[str]()
        self.most = min(MAX_TOTAL_BYTES, max(2**30, MAX_SWELLING * path.stat().st_size))

    def passes(self, name: str, size: int, trouble: str | None, folder: bool) -> bool:
        """True for a file to read, False for a folder or clutter; raises on anything unsafe."""
        if _is_unsafe(name):
            raise MetadriftError(f"{self.path} is refused: the name {name!r} leads out of it")
        if trouble or size < 0:
            trouble = trouble or "of a negative size"
            raise MetadriftError(f"{self.path} is refused: {name!r} is {trouble}")
        self.total += size
        if size > MAX_MEMBER_BYTES or self.total > self.most:
            raise MetadriftError(
                f"{self.path} is refused: unpacked it would take more than "
                f"{self.most >> 30} GiB, or one file more than {MAX_MEMBER_BYTES >> 30} GiB "
                f"(seen at {name!r})"
            )
        if folder or is_clutter(name):
            return False
        if name in self.seen or len(self.seen) > MAX_NAMES:
            raise MetadriftError(f"{self.path} is refused: it holds {name!r} twice, or too much")
        self.seen.add(name)
        return True


def names_in_zip(path: Path, archive: zipfile.ZipFile) -> Iterator[str]:
    """The names of a zip's files; raises on anything unsafe in it."""
    check = ArchiveCheck(path)
    for info in archive.infolist():
        if check.passes(info.filename, info.file_size, _zip_trouble(info), info.is_dir()):
            yield info.filename


class BoundedReader:
    """A tar's bytes as they come out of decompression, with a limit.

    `at_once` bounds one read: a header may claim any length, and would be read whole.
    """

    def __init__(self, raw: IO[bytes], check: ArchiveCheck) -> None:
        self._raw, self._check, self._taken = raw, check, 0
        self.at_once = MAX_HEADER_BYTES

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self.at_once:
            raise MetadriftError(
                f"{self._check.path} is refused: {size} bytes would have to be read at once, "
                f"and {self.at_once} are allowed here"
            )
        data = self._raw.read(size)
        self._taken += len(data)
        # No byte is read more than twice, unless offsets lead round in a circle.
        if max(self._taken // 2, self._raw.tell()) > self._check.most:
            raise MetadriftError(
                f"{self._check.path} is refused: it unpacks to more than "
                f"{self._check.most >> 30} GiB"
            )
        return data

    def seek(self, place: int) -> int:
        if not 0 <= place <= self._check.most:
            raise MetadriftError(f"{self._check.path} is refused: a size in it is impossible")
        return self._raw.seek(place)

    def tell(self) -> int:
        return self._raw.tell()


def is_clutter(name: str) -> bool:
    parts = name.split("/")
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in parts)
    return hidden or parts[-1].lower() in ("thumbs.db", "desktop.ini")


def _zip_trouble(info: zipfile.ZipInfo) -> str | None:
    kind = (info.external_attr >> 16) & 0o170000  # the Unix file type, 0 when not given
    if kind not in (0, 0o100000, 0o040000):
        return "a link or another special file"
    return "encrypted" if info.flag_bits & 1 else None


def tar_trouble(member: tarfile.TarInfo) -> str | None:
    plain = (member.isfile() and not member.issparse()) or member.isdir()
    return None if plain else "a link or another special file"


def _is_unsafe(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return ".." in parts or parts[0] == "" or (parts[0][1:2] == ":") or "\0" in name
