"""Downloads against a local server that behaves as badly as real ones do."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

from metadrift.cli import main
from metadrift.data.download import published as download_table
from metadrift.data.download.fetch import Patience, fetch
from metadrift.data.download.published import DATASETS, Remote
from metadrift.data.pack import open_pack
from metadrift.errors import MetadriftError

COMMAND = Path(sys.executable).parent / "metadrift"
DATA = np.random.default_rng(0).bytes(1_000_000)
MD5 = hashlib.md5(DATA).hexdigest()
QUICK = Patience(attempts=3, wait=0.01, timeout=5.0)


@dataclass
class Site:
    """What the server holds, how it misbehaves, and what it was asked."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    drops: list[int] = field(default_factory=list)  # bytes sent before each answer breaks off
    statuses: list[int] = field(default_factory=list)  # answered instead, one a request
    ranges: bool = True
    tag: str | None = None
    longer: int = 0  # Content-Length says so many bytes more than there are
    shift: int = 0  # a range begins so many bytes later than was asked for
    google: bool = False
    refuses_ranges: bool = False  # with 416, whatever is asked for
    pause: float = 0.0  # before each block
    asked: list[tuple[str, str | None]] = field(default_factory=list)


@pytest.fixture
def site() -> Iterator[Site]:
    state = Site(files={"file.bin": DATA})

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            answer(self, state)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def answer(handler: BaseHTTPRequestHandler, site: Site) -> None:
    wanted = handler.headers.get("Range")
    site.asked.append((handler.path, wanted))
    if site.statuses:
        handler.send_response(site.statuses.pop(0))
        handler.send_header("Retry-After", "0")
        handler.end_headers()
        return
    data = site.files.get(unquote(handler.path).lstrip("/"))
    if data is None:
        handler.send_error(404)
        return
    start, end, status = 0, len(data), 200
    same = handler.headers.get("If-Range") in (None, site.tag)
    if wanted and site.ranges and same:
        first, last = wanted.removeprefix("bytes=").split("-")
        start, status = int(first) + site.shift, 206
        end = min(end, int(last) + 1) if last else end
        if start >= len(data) or site.refuses_ranges:
            handler.send_response(416)
            if not site.refuses_ranges:
                handler.send_header("Content-Range", f"bytes */{len(data)}")
            handler.end_headers()
            return
    handler.send_response(status)
    handler.send_header("Content-Length", str(end - start + site.longer))
    if status == 206:
        handler.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
    if site.tag:
        handler.send_header("ETag", site.tag)
    if site.google:
        digest = base64.b64encode(hashlib.md5(data).digest()).decode()
        handler.send_header("x-goog-hash", "crc32c=AAAAAA==")
        handler.send_header("x-goog-hash", f"md5={digest}")
    handler.end_headers()
    body = data[start:end]
    if site.drops:
        body = body[: site.drops.pop(0)]
    try:
        for place in range(0, len(body), 50_000):
            time.sleep(site.pause)
            handler.wfile.write(body[place : place + 50_000])
    except (BrokenPipeError, ConnectionResetError):
        pass
    handler.close_connection = True


def nothing_else_in(folder: Path) -> bool:
    return [path.name for path in folder.iterdir()] == ["file.bin"]


def test_a_file_is_fetched_and_told_about(site: Site, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = fetch(
        f"{site.url}/file.bin",
        tmp_path / "new" / "file.bin",
        md5=MD5,
        progress=lambda have, total: told.append((have, total)),
    )
    assert path.read_bytes() == DATA
    assert told[-1] == (len(DATA), len(DATA))
    assert nothing_else_in(tmp_path / "new")


def test_a_file_that_is_there_is_not_asked_for_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"mine")
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin")
    assert site.asked == []


def test_dropped_connections_are_resumed_where_they_broke(site: Site, tmp_path: Path) -> None:
    site.drops = [100_000, 1, 350_001, 0, 0]
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5, patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    asked = [wanted for _, wanted in site.asked]
    assert asked[:4] == [None, "bytes=100000-", "bytes=100001-", "bytes=450002-"]
    assert nothing_else_in(tmp_path)


def test_a_server_that_ignores_ranges_starts_over(site: Site, tmp_path: Path) -> None:
    site.drops, site.ranges = [400_000], False
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5, patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_a_part_left_by_a_killed_download_is_used(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(DATA[:999_000])
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5)
    assert site.asked == [("/file.bin", "bytes=999000-")]
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_a_part_that_is_already_whole_only_needs_its_name(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(DATA)
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5)
    assert nothing_else_in(tmp_path)


def test_a_part_longer_than_the_file_is_thrown_away(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(DATA + b"more")
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_two_versions_are_never_stitched_together(site: Site, tmp_path: Path) -> None:
    site.tag, site.drops = '"one"', [300_000, 0, 0]
    with pytest.raises(MetadriftError, match="goes on from there"):
        fetch(f"{site.url}/file.bin", tmp_path / "file.bin", patience=Patience(2, 0.01))
    site.tag, site.drops = '"two"', []
    site.files["file.bin"] = newer = DATA[::-1]
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == newer
    assert nothing_else_in(tmp_path)


def test_a_busy_server_is_asked_again(site: Site, tmp_path: Path) -> None:
    site.statuses = [503, 429]
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5, patience=QUICK)
    assert len(site.asked) == 3


def test_a_server_that_stays_busy_is_given_up_with_the_way_to_go_on(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "file.bin.part").write_bytes(DATA[:5])
    site.statuses = [503] * 9
    with pytest.raises(MetadriftError, match=r"503.*3 times in a row\. 5 bytes are kept"):
        fetch(f"{site.url}/file.bin", tmp_path / "file.bin", patience=QUICK)
    assert len(site.asked) == 3


def test_a_missing_file_is_not_asked_for_twice(site: Site, tmp_path: Path) -> None:
    with pytest.raises(MetadriftError, match="404"):
        fetch(f"{site.url}/nothing.bin", tmp_path / "nothing.bin", patience=QUICK)
    assert len(site.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_nobody_listening_is_said_in_one_sentence(site: Site, tmp_path: Path) -> None:
    with pytest.raises(MetadriftError, match="connection failed"):
        fetch("http://127.0.0.1:9/file.bin", tmp_path / "file.bin", patience=QUICK)


def test_wrong_bytes_are_fetched_once_more_and_then_refused(site: Site, tmp_path: Path) -> None:
    with pytest.raises(MetadriftError, match="not the published file"):
        fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5="0" * 32, patience=QUICK)
    assert len(site.asked) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_part_is_healed_by_starting_over(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5, patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_the_checksum_that_the_server_sends_counts_too(site: Site, tmp_path: Path) -> None:
    site.google = True
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1000)
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA
    assert len(site.asked) == 2


def test_a_server_that_promises_more_than_it_has_ends_in_a_whole_file(
    site: Site, tmp_path: Path
) -> None:
    site.longer = 7
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5, patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_a_server_that_promises_less_than_it_has_is_caught_by_the_checksum(
    site: Site, tmp_path: Path
) -> None:
    site.longer = -7
    with pytest.raises(MetadriftError, match="not the published file"):
        fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5, patience=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_sends_another_part_than_asked_is_not_believed(
    site: Site, tmp_path: Path
) -> None:
    site.drops, site.shift = [1000], 10
    fetch(f"{site.url}/file.bin", tmp_path / "file.bin", patience=QUICK)
    assert (tmp_path / "file.bin").read_bytes() == DATA


def test_a_server_that_never_gets_further_is_given_up(site: Site, tmp_path: Path) -> None:
    site.refuses_ranges, site.drops = True, [500_000] * 99
    with pytest.raises(MetadriftError, match="3 times in a row"):
        fetch(f"{site.url}/file.bin", tmp_path / "file.bin", md5=MD5, patience=QUICK)
    assert len(site.asked) < 6


def test_a_beginning_ends_with_a_whole_line(site: Site, tmp_path: Path) -> None:
    lines = b"".join(b"line %d\n" % n for n in range(1000))
    site.files["lines.txt"] = lines
    for ranges in (True, False):
        site.ranges = ranges
        path = tmp_path / f"{ranges}.txt"
        fetch(f"{site.url}/lines.txt", path, head=100)
        assert path.read_bytes() == lines[:100][: lines[:100].rfind(b"\n") + 1]
    assert site.asked[0][1] == "bytes=0-99"
    fetch(f"{site.url}/lines.txt", tmp_path / "all.txt", head=10**6)
    assert (tmp_path / "all.txt").read_bytes() == lines


def test_only_web_addresses_are_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    with pytest.raises(MetadriftError, match="not a web address"):
        fetch(secret.as_uri(), tmp_path / "copy")


@pytest.mark.slow
def test_a_second_download_of_the_same_file_is_told_to_wait(site: Site, tmp_path: Path) -> None:
    site.pause = 0.1
    first = threading.Thread(target=fetch, args=(f"{site.url}/file.bin", tmp_path / "file.bin"))
    first.start()
    while not (tmp_path / "file.bin.part").exists():
        time.sleep(0.01)
    with pytest.raises(MetadriftError, match="is being downloaded by process"):
        fetch(f"{site.url}/file.bin", tmp_path / "file.bin")
    first.join()
    assert (tmp_path / "file.bin").read_bytes() == DATA


def drawings(word: str, count: int) -> bytes:
    strokes = [[[0, 255, 100], [0, 200, 255]]]
    line = json.dumps({"word": word, "recognized": True, "drawing": strokes})
    return (line + "\n").encode() * count


def metadrift(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=120)


def test_quickdraw_is_downloaded_and_imported_by_one_command(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    assert len(DATASETS["quickdraw"].files) == 345
    some = tuple(f for f in DATASETS["quickdraw"].files if f.name < "b" or " " in f.name)[:30]
    monkeypatch.setitem(DATASETS, "quickdraw", replace(DATASETS["quickdraw"], files=some))
    for file in some:
        site.files[f"m/{file.name}"] = drawings(file.name.removesuffix(".ndjson"), 3)
    words = ["data", "download", "quickdraw", "--url", f"{site.url}/m/", "--out", str(tmp_path)]
    assert main([*words, "--size", "8"]) == 0
    pack = open_pack(tmp_path / "quickdraw")
    assert "alarm clock" in pack.class_names
    assert len(pack.images) == 3 * len(some)
    assert all(wanted == "bytes=0-2097151" for _, wanted in site.asked)
    assert main(words) == 1
    assert "--replace" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_command_goes_on_where_it_was(site: Site, tmp_path: Path) -> None:
    site.pause = 0.1
    words = ["data", "download", "omniglot", "--url", site.url, "--no-import", "--wait", "0"]
    words += ["--archives", str(tmp_path)]
    site.files["images_background.zip"] = DATA
    running = subprocess.Popen([COMMAND, *words], stderr=subprocess.DEVNULL)
    part = tmp_path / "images_background.zip.part"
    while not (part.exists() and part.stat().st_size):
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    have = part.stat().st_size
    assert 0 < have < len(DATA)
    site.pause = 0.0
    # These bytes are not Omniglot's: the checksum refuses them at the end, and nothing stays.
    done = metadrift(*words)
    assert site.asked[1] == ("/images_background.zip", f"bytes={have}-")
    assert done.returncode == 1
    assert "is not the published file" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.zip"))


@pytest.fixture
def small_omniglot() -> Callable[[str], bytes]:
    def make(half: str) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for character in range(2):
                for n in range(2):
                    image = io.BytesIO()
                    Image.new("1", (20, 20), n).save(image, "PNG")
                    name = f"{half}/Greek/character0{character + 1}/{n}.png"
                    archive.writestr(name, image.getvalue())
        return file.getvalue()

    return make


def test_a_verified_download_becomes_a_pack(
    site: Site, tmp_path: Path, small_omniglot, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = {f"{half}.zip": small_omniglot(half) for half in ("images_background",)}
    site.files |= halves
    remote = tuple(Remote(name, hashlib.md5(data).hexdigest()) for name, data in halves.items())
    monkeypatch.setitem(DATASETS, "omniglot", replace(DATASETS["omniglot"], files=remote))
    words = ["data", "download", "omniglot", "--url", site.url, "--out", str(tmp_path)]
    assert main([*words, "--size", "8"]) == 0
    assert len(open_pack(tmp_path / "omniglot").images) == 4
    assert (tmp_path / "downloads" / "omniglot" / "images_background.zip").is_file()


@pytest.mark.parametrize("dataset", ["miniimagenet", "necessities"])
def test_what_has_no_address_is_explained(dataset: str) -> None:
    done = metadrift("data", "download", dataset)
    assert done.returncode == 1
    assert "https://" in done.stderr
    assert f"metadrift data import {dataset} FOLDER" in done.stderr


@pytest.mark.parametrize(
    "words", [["cub", "--whole"], ["cub", "--attempts", "0"], ["cub", "--wait", "-1"]]
)
def test_wrong_settings_are_wrong_use(words: list[str], capsys) -> None:
    assert main(["data", "download", *words]) == 2
    assert "--" in capsys.readouterr().err


def test_the_table_is_sound() -> None:
    for published in DATASETS.values():
        assert published.base.startswith("https://")
        assert published.page.startswith("https://")
        names = [file.name for file in published.files]
        assert len(set(names)) == len(names)
        assert all(len(file.md5) == 32 for file in published.files if file.md5)
        assert published.source in ["", *names]
    assert set(DATASETS).isdisjoint(download_table.BY_HAND)
