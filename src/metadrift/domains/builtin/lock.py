"""One program at a time in a folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from metadrift.errors import MetadriftError


@contextmanager
def folder_lock(folder: Path, patience: float = 3600.0) -> Iterator[None]:
    """Hold a folder's lock file, waiting up to `patience` seconds for whoever has it.

    The operating system holds the lock for as long as the process lives, so the lock of a program
    that was killed is free at once; the file itself stays, and means nothing without a holder.
    """
    file = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = open(file, "a+b")  # noqa: SIM115
    except OSError as error:
        raise MetadriftError(
            f"{folder} cannot be written: {error.strerror}; set METADRIFT_CACHE to another folder"
        ) from None
    with stream:
        until = time.monotonic() + patience
        while not _try_lock(stream):
            if time.monotonic() > until:
                raise MetadriftError(
                    f"another program has been holding {file} for {patience:.0f} s; "
                    "stop it, or use another folder"
                )
            time.sleep(0.05)
        try:
            yield
        finally:
            _unlock(stream)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(stream: IO[bytes]) -> bool:
        try:
            stream.seek(0)
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(stream: IO[bytes]) -> None:
        stream.seek(0)
        msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(stream: IO[bytes]) -> bool:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(stream: IO[bytes]) -> None:
        fcntl.flock(stream, fcntl.LOCK_UN)
