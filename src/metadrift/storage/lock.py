"""One program at a time: a lock file that the operating system releases when its holder ends."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from metadrift.errors import MetadriftError

_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # what such file systems answer


@contextmanager
def lock(file: Path, busy: str, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock file, waiting up to `patience` seconds for its holder.

    The operating system keeps the lock only while the process lives, so the lock of a killed
    program is free at once. The file names the holder's process and is removed at the end. On a
    file system without locks nothing is locked.

    Parameters
    ----------
    file
        The lock file; its folder must exist.
    busy
        How the error begins when another program keeps the lock, up to `by process N`.

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
    if file.is_symlink():
        raise MetadriftError(f"{file} is a link, not a lock file; remove it")
    held = FileLock(
        file, timeout=patience, poll_interval=0.05, fallback_to_soft=False, on_acquired=_sign
    )
    try:
        held.acquire()
    except Timeout:
        raise MetadriftError(
            f"{busy} by process {_holder(file)}; wait until it has ended, or stop it"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    try:
        yield
    finally:
        with suppress(OSError):  # Windows keeps a file that is open; it means nothing there
            file.unlink()  # before the release: whoever waits finds it gone and makes a new one
        held.release()


def _sign(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())


def _holder(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip() or "?"
    except (OSError, UnicodeDecodeError):
        return "?"
