"""One program at a time: a lock file that the operating system lets go with its holder."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from metadrift.errors import MetadriftError

_BYTE = 1 << 20  # which byte is locked; not one of the number at the start, which others read


@contextmanager
def lock(file: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock file, waiting up to `patience` seconds for whoever has it.

    The operating system holds the lock for as long as the process lives, so that of a program that
    was killed is free at once. The file says the holder's process and is removed at the end. On a
    file system without locks nothing is locked.

    Parameters
    ----------
    file
        The lock file; its folder must exist.
    busy
        How the error begins when it is held too long, up to `by process N`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with lock(Path(folder, ".lock"), "the folder is being written"):
    ...         try:
    ...             with lock(Path(folder, ".lock"), "the folder is being written"):
    ...                 pass
    ...         except MetadriftError as error:
    ...             print(str(error).replace(str(os.getpid()), "N"))
    the folder is being written by process N; wait until it has ended, or stop it
    """
    until = time.monotonic() + patience
    while (held := _acquire(file)) is None:
        if time.monotonic() >= until:
            raise MetadriftError(
                f"{busy} by process {_holder(file)}; wait until it has ended, or stop it"
            )
        time.sleep(0.05)
    with held:
        try:
            yield
        finally:
            with suppress(OSError):  # Windows keeps a file that is open; it means nothing there
                file.unlink()


def _acquire(file: Path) -> IO[bytes] | None:
    """The open and locked file, or None when somebody else has it."""
    stream = open(file, "a+b")  # noqa: SIM115
    try:
        if _try_lock(stream) and _is_still(stream, file):
            stream.truncate(0)
            stream.write(f"{os.getpid()}\n".encode())
            stream.flush()
            return stream
    except BaseException:
        stream.close()
        raise
    stream.close()
    return None


def _is_still(stream: IO[bytes], file: Path) -> bool:
    """False when the holder before us removed the file between our opening and our locking."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), file.stat())
    except FileNotFoundError:
        return False


def _holder(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip() or "?"
    except (OSError, UnicodeDecodeError):
        return "?"


def _is_taken(error: OSError) -> bool:
    """Held by another, or else this file system knows no locks."""
    return error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(stream: IO[bytes]) -> bool:
        try:
            stream.seek(_BYTE)
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError as error:
            return not _is_taken(error)
        return True

else:
    import fcntl

    def _try_lock(stream: IO[bytes]) -> bool:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return not _is_taken(error)
        return True
