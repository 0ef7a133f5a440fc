"""Download one file over HTTP: resume, try again, verify, and then rename.

What has arrived is in NAME.part, and the server's tag for its version in NAME.part.tag. The file
gets its name only when it is whole and its checksum is right.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

from metadrift.errors import MetadriftError
from metadrift.storage.files import put_in_place
from metadrift.storage.lock import lock

_BLOCK = 1 << 18
_PASSING = (408, 425, 429, 500, 502, 503, 504)  # a later try may work
_MOST_WAIT = 60.0

Progress = Callable[[int, int | None], None]  # called with the bytes so far, and the total if known


@dataclass(frozen=True)
class Patience:
    """Tries in a row without a new byte, seconds before the second try, seconds for an answer."""

    attempts: int = 6
    wait: float = 1.0
    timeout: float = 60.0


class _BrokenError(Exception):
    """This try failed; another one may work."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


def fetch(
    url: str,
    path: Path,
    *,
    md5: str | None = None,
    head: int | None = None,
    patience: Patience | None = None,
    progress: Progress | None = None,
) -> Path:
    """Download `url` to `path`, unless it is there already.

    Parameters
    ----------
    md5
        The published checksum. Without one, that of the server's `x-goog-hash`, if it sends it.
    head
        Only this many bytes, cut after the last whole line. Then only the length is verified.
    patience
        How to try again. The wait doubles each time, and starts again after new bytes.
    progress
        Called after every block with the bytes so far, and the total if the server gives it.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise MetadriftError(f"{url} is not a web address; it should begin with https://")
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock(path.with_name(f".{path.name}.lock"), f"{path} is being downloaded"):
        if not path.exists():
            _Download(url, path, md5, head, patience or Patience(), progress).run()
    return path


class _Download:
    def __init__(
        self,
        url: str,
        path: Path,
        md5: str | None,
        head: int | None,
        patience: Patience,
        progress: Progress | None,
    ) -> None:
        self.url, self.path, self.md5, self.head = url, path, md5, head
        self.patience, self.tell = patience, progress or (lambda _, __: None)
        self.part = path.with_name(f"{path.name}.part")
        self.tag = path.with_name(f"{path.name}.part.tag")
        self.wrong_sums: list[str] = []

    def run(self) -> None:
        failed, wait, most = 0, self.patience.wait, self._have()
        while True:
            try:
                self._attempt()
                return self._finish()
            except _BrokenError as broken:
                # Against the most so far: bytes that are dropped and fetched again do not count.
                moved = self._have() > most
                most = max(most, self._have())
                failed, wait = (0, self.patience.wait) if moved else (failed + 1, wait)
                if failed >= self.patience.attempts:
                    raise MetadriftError(
                        f"{self.url} could not be downloaded: {broken}, {failed} times in a row. "
                        f"{self._have()} bytes are kept in {self.part}; the same command goes on "
                        "from there"
                    ) from None
                time.sleep(min(broken.wait if broken.wait is not None else wait, _MOST_WAIT))
                wait *= 2

    def _attempt(self) -> None:
        """Ask for what is missing and write it; _BrokenError if that fails."""
        have = self._have()
        if self.head is not None and have >= self.head:
            return
        try:
            said = urllib.request.urlopen(self._request(have), timeout=self.patience.timeout)
        except urllib.error.HTTPError as error:
            with error:
                return self._refused(error, have)
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            raise _lost(error) from None
        with said:
            self._copy(said, self._begin(said.status, said.headers, have))

    def _request(self, have: int) -> urllib.request.Request:
        request = urllib.request.Request(self.url, headers={"User-Agent": "metadrift"})
        last = "" if self.head is None else str(self.head - 1)
        if have or last:
            request.add_header("Range", f"bytes={have}-{last}")
        if have and self.tag.is_file():
            # If its version has changed, the server then sends the whole file.
            request.add_header("If-Range", self.tag.read_text(encoding="utf-8").strip())
        return request

    def _begin(self, status: int, headers: Message, have: int) -> int | None:
        """Prepare the part file; gives the total length, if the server sends it."""
        said = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
        length = headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        start = int(said[1]) if status == 206 and said else 0
        if start != have:
            self._drop()  # the server starts at another byte, or ignores Range
            if start:
                raise _BrokenError("the server sent another part of the file than was asked for")
        tag = headers.get("ETag", "")
        if tag.startswith("W/") or not tag:
            tag = headers.get("Last-Modified", "")
        if tag and "\n" not in tag:
            self.tag.write_text(tag, encoding="utf-8")
        sums = ",".join(headers.get_all("x-goog-hash", []))
        found = re.search(r"md5=([A-Za-z0-9+/=]+)", sums)
        if found and self.md5 is None:
            self.md5 = base64.b64decode(found[1]).hex()
        total = None if total is None else start + total
        if self.head is not None and (total is None or total > self.head):
            total = self.head
        self._need_room(total)
        return total

    def _copy(self, said: http.client.HTTPResponse, total: int | None) -> None:
        have = self._have()
        with open(self.part, "ab") as file:
            while block := _read(said):
                if total is not None:
                    block = block[: total - have]
                file.write(block)
                have += len(block)
                self.tell(have, total)
                if total is not None and have >= total:
                    break
        if total is not None and have < total:
            raise _BrokenError(f"the connection ended after {have} of {total} bytes")

    def _refused(self, error: urllib.error.HTTPError, have: int) -> None:
        if error.code == 416 and have:  # we have all bytes already
            said = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
            if said and int(said[1]) == have:
                return
            self._drop()
            raise _BrokenError("the server has a shorter file than what was here")
        if error.code in _PASSING:
            after = error.headers.get("Retry-After", "")
            wait = float(after) if after.isdigit() else None
            raise _BrokenError(f"the server answered {error.code} {error.reason}", wait)
        raise MetadriftError(
            f"{self.url} cannot be downloaded: the server answered {error.code} {error.reason}. "
            "If the file has moved, --url names another place"
        )

    def _finish(self) -> None:
        if self.head is not None:
            _cut_after_last_line(self.part)
        elif self.md5 is not None and (found := _md5(self.part)) != self.md5:
            self._drop()
            self.wrong_sums.append(found)
            if len(self.wrong_sums) > 1:
                raise MetadriftError(
                    f"{self.url} is not the published file: its md5 is {found}, published is "
                    f"{self.md5}. It was downloaded twice and removed"
                )
            return self.run()  # once more from the start: it may have been damaged in transfer
        put_in_place(self.part, self.path)
        with suppress(FileNotFoundError):
            self.tag.unlink()

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def _drop(self) -> None:
        for file in (self.part, self.tag):
            with suppress(FileNotFoundError):
                file.unlink()

    def _need_room(self, total: int | None) -> None:
        missing = (total or 0) - self._have()
        free = shutil.disk_usage(self.path.parent).free
        if missing > free:
            raise MetadriftError(
                f"{self.path} needs {missing >> 20} MiB more, and {free >> 20} MiB are free there"
            )


def _read(said: http.client.HTTPResponse) -> bytes:
    try:
        return said.read(_BLOCK)
    except (http.client.HTTPException, OSError) as error:
        raise _lost(error) from None


def _lost(error: Exception) -> _BrokenError:
    return _BrokenError(f"the connection failed ({getattr(error, 'reason', None) or error})")


def _cut_after_last_line(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: data.rfind(b"\n") + 1])


def _md5(file: Path) -> str:
    with open(file, "rb") as stream:  # md5 is what is published; it shows damage, not attacks
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
