"""A folder, a zip or a tar file, read in place: list the names, open one.

Nothing is unpacked to disk.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from metadrift.data.importers.archives import (
    MAX_AT_ONCE,
    MAX_HEADER_BYTES,
    ArchiveCheck,
    BoundedReader,
    is_clutter,
    names_in_zip,
    tar_trouble,
)
from metadrift.errors import MetadriftError

_TEXT_BYTES = 64 * 2**20  # text files up to here are kept from the listing of a compressed tar

# What reading a damaged archive may raise.
READ_ERRORS: tuple[type[Exception], ...] = (OSError, EOFError, ValueError, KeyError, RuntimeError)
READ_ERRORS += (zipfile.BadZipFile, zlib.error, lzma.LZMAError, tarfile.TarError)


class Source(ABC):
    """Files below a root, by their names with `/` between the parts.

    A source is sent to worker processes, and each of them opens it again.
    """

    path: Path
    names: list[str]
    sequential = False  # True if only the order of `stream` is quick to read

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """A file to read; FileNotFoundError when there is none of that name."""

    def stream(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """The wanted files that exist, in the order that is quickest to read."""
        for name in self.names:
            if name in names:
                with self.open(name) as file:
                    yield name, file.read()

    def beside(self, name: str) -> list[str]:
        """The folders that hold a file of this name, the shortest first; '' is the root."""
        ends = [n for n in self.names if n == name or n.endswith("/" + name)]
        return [end[: -len(name)] for end in sorted(ends, key=len)]


def open_source(path: Path, mount: Iterable[str] = ()) -> Source:
    """Open a folder or an archive for reading.

    `mount` names archives that the folder may hold instead of their extracted folders. Their files
    then appear as if they had been extracted there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with zipfile.ZipFile(Path(folder, "pets.zip"), "w") as file:
    ...         file.writestr("pets/cat/1.png", b"...")
    ...     open_source(Path(folder), mount=["pets.zip"]).names
    ['pets/cat/1.png']
    """
    if path.is_dir():
        folder = FolderSource(path)
        inside = [
            path / name
            for name in mount
            if (path / name).is_file()
            and not any(n.startswith(name.split(".")[0] + "/") for n in folder.names)
        ]
        return MountedSource(folder, [_open_archive(file) for file in inside]) if inside else folder
    if path.is_file():
        return _open_archive(path)
    raise MetadriftError(f"there is no file or folder {path}")


class FolderSource(Source):
    """A folder on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names = sorted(self._walk("", path.resolve()))

    def open(self, name: str) -> BinaryIO:
        return open(self.path / name, "rb")

    def _walk(self, below: str, root: Path) -> Iterator[str]:
        try:
            entries = list(os.scandir(self.path / below))
        except OSError as error:
            raise MetadriftError(f"{self.path / below} cannot be listed: {error}") from None
        for entry in entries:
            name = below + entry.name
            if is_clutter(name):
                continue
            if entry.is_symlink() and not _leads_inside(Path(entry.path), root):
                raise MetadriftError(
                    f"{entry.path} is a link that leads out of {self.path}; "
                    "put the file itself there"
                )
            if entry.is_dir():
                if entry.is_symlink():
                    raise MetadriftError(
                        f"{entry.path} is a link to a folder; put the folder itself there"
                    )
                yield from self._walk(name + "/", root)
            elif entry.is_file():
                yield name


class ZipSource(Source):
    """A zip file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._zip: zipfile.ZipFile | None = None
        with _damage_named(path):
            self.names = sorted(names_in_zip(path, self._archive()))

    def open(self, name: str) -> BinaryIO:
        try:
            return cast(BinaryIO, self._archive().open(name))
        except KeyError:
            raise FileNotFoundError(name) from None

    def _archive(self) -> zipfile.ZipFile:
        if self._zip is None:
            self._zip = zipfile.ZipFile(self.path)
        return self._zip

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_zip": None}


class TarSource(Source):
    """A tar file. A compressed one can only be read from front to back.

    Small text files are kept from the listing, so that reading one costs no second pass.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names = []
        self._texts: dict[str, bytes] = {}
        self._members: dict[str, tuple[int, int]] = {}  # first byte, size
        self._unpack = _unpacker(path)
        self.sequential = self._unpack is not None
        check = ArchiveCheck(path)
        with _damage_named(path):
            for member, name, file in self._read():
                if not check.passes(name, member.size, tar_trouble(member), member.isdir()):
                    continue
                self.names.append(name)
                if not self.sequential:
                    self._members[name] = member.offset_data, member.size
                elif name.endswith((".txt", ".csv")) and member.size <= _TEXT_BYTES:
                    self._texts[name] = file.read()

    def open(self, name: str) -> BinaryIO:
        if name in self._texts:
            return io.BytesIO(self._texts[name])
        if name in self._members:
            first, size = self._members[name]
            with open(self.path, "rb") as file:
                file.seek(first)
                return io.BytesIO(file.read(size))
        for _, data in self.stream([name]):
            return io.BytesIO(data)
        raise FileNotFoundError(name)

    def stream(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        with _damage_named(self.path):
            for member, name, file in self._read():
                if name in names and member.isfile():
                    yield name, file.read()

    def _read(self) -> Iterator[tuple[tarfile.TarInfo, str, IO[bytes]]]:
        """Every member, in order, with a file that is valid until the next one."""
        with (self._unpack or open)(self.path, "rb") as raw:
            bounded, last = BoundedReader(raw, ArchiveCheck(self.path)), -1
            with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r:") as archive:
                while (member := archive.next()) is not None:
                    if member.offset <= last:
                        raise ValueError("its headers lead back")
                    last, bounded.at_once = member.offset, MAX_AT_ONCE
                    file = archive.extractfile(member) if member.isfile() else None
                    yield member, member.name.removeprefix("./"), file or io.BytesIO()
                    bounded.at_once = MAX_HEADER_BYTES
            while bounded.read(1 << 20):  # to the end: damage may show only there
                pass


class MountedSource(Source):
    """A folder together with archives in it."""

    def __init__(self, folder: Source, archives: list[Source]) -> None:
        self.path = folder.path
        self._home = {n: part for part in [*archives, folder] for n in part.names}
        for archive in archives:
            del self._home[archive.path.name]
        self._parts = [folder, *archives]
        self.names = list(self._home)
        self.sequential = any(part.sequential for part in archives)

    def open(self, name: str) -> BinaryIO:
        if name not in self._home:
            raise FileNotFoundError(name)
        return self._home[name].open(name)

    def stream(self, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        for part in self._parts:
            yield from part.stream({n for n in names if self._home.get(n) is part})


def _open_archive(path: Path) -> Source:
    if zipfile.is_zipfile(path):
        return ZipSource(path)
    if re.search(r"\.(tar|tgz|tbz2?|txz|tar\.\w+)$", path.name.lower()):
        return TarSource(path)
    raise MetadriftError(f"{path} is neither a folder nor a zip, tar or tgz file")


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except READ_ERRORS as error:
        raise MetadriftError(f"{path} is damaged or cut off: {error}") from None


def _unpacker(path: Path) -> Any:
    with open(path, "rb") as file:
        start = file.read(6)
    known = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
    return next((opener for magic, opener in known.items() if start.startswith(magic)), None)


def _leads_inside(link: Path, root: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        return False
