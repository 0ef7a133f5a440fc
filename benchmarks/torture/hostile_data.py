"""Data and names that somebody else made: packs, archives, manifests, vectors, settings."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from trial import FailedError, Trial, Workshop, expect, shortened, untouched

from metadrift.data.pack import SPLITS, write_pack
from metadrift.errors import MetadriftError
from metadrift.storage.tables import to_toml
from metadrift.streams.manifest import ManifestStream
from metadrift.tasks import TaskGeometry

DATA, NAMES, USE = "hostile data", "hostile names", "wrong use and settings"
HUGE = "9" * 5000  # more digits than Python reads
BAD_NAME = os.fsdecode(b"b\xffd")
MARKUP = ["[/b]x", "\x1b[31mred", "\u202egnp.exe", "<script>alert(1)</script>", "a\nb"]


def trials() -> Iterator[Trial]:
    for name in ("/abs/evil", "../OUT/evil", "..", "a/b", "", "\ud800", "x" * 300):
        shown = json.dumps(name[:20])
        yield Trial(DATA, f"a pack with the name {shown}", partial(_pack_name, name=name))
    for key, value in PACKS.items():
        yield Trial(DATA, f"a pack.json with {key}", partial(_pack, change=value))
    for name in ("pack.json", "images.npy"):
        for how in ("a pipe", "endless", "a link to /dev/zero"):
            yield Trial(DATA, f"a pack's {name} is {how}", partial(_special, name=name, how=how))
    for name, make in ARCHIVES.items():
        yield Trial(DATA, f"an archive with {name}", partial(_archive, make=make))
    for name, line in MANIFESTS.items():
        yield Trial(DATA, f"a manifest with {name}", partial(_manifest, line=line))
    yield Trial(DATA, "a picture that is a pipe", _picture_pipe)
    for name, values in VECTORS.items():
        yield Trial(DATA, f"detect on {name}", partial(_vectors, values=values))
    yield Trial(DATA, "detect on a pipe", _vector_pipe)
    yield Trial(NAMES, "a class folder that is not UTF-8", _class_folder)
    yield Trial(NAMES, "packs that are not UTF-8, beside a good one", _data_list)
    yield Trial(NAMES, "a run's folder that is not UTF-8", _run_folder)
    for name in MARKUP:
        yield Trial(NAMES, f"a pack's name is {name!r}", partial(_shown_pack, name=name))
        yield Trial(NAMES, f"domains and variants are {name!r}", partial(_variant, name=name))
    for name, words in USES.items():
        yield Trial(USE, name, partial(_use, words=words))
    for name, (file, text) in SETTINGS.items():
        yield Trial(USE, name, partial(_settings, file=file, text=text))


def _rows(n: int = 18) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        (f"c{c}", SPLITS[c * 3 // n], rng.integers(0, 255, (8, 12, 12, 1), np.uint8))
        for c in range(n)
    ]


def _good_pack(folder: Path, name: str = "p") -> Path:
    return write_pack(folder / name, name, _rows(), source="here", licence="CC0")


def _benchmark(folder: Path, pack: str) -> Path:
    lines = ["memory = 4", "[[segments]]", 'domain = "d"', "steps = 4"]
    (folder / "b.toml").write_text("\n".join([*lines, f"pack = {json.dumps(pack)}"]))
    return folder / "b.toml"


def _try_pack(work: Workshop, place: Path) -> str:
    """Every command that reads a pack: nothing outside `place/data` and `place/here` changes."""
    pack, ends = place / "data" / "p", []
    (place / "here").mkdir()
    (place / "outside").mkdir(exist_ok=True)
    run = ["run", "--benchmark", _benchmark(place, "data/p"), "--ways", "2", "--queries", "2"]
    run += ["--test-tasks", "2", "--learn.filters", "4", "--out", place / "here", "--name", "run"]
    for words in (
        ["data", "preview", pack], ["data", "list", "--data", place / "data"],
        ["data", "list", "--data", place / "data", "--json"],
        ["data", "verify", "--data", place / "data"], ["data", "difficulty", pack], run,
    ):  # fmt: skip
        with untouched(place / "outside", place / "data"):
            code, said = work.call(place / "here", *words, sabotage=["little_memory", 3 * 2**30])
        expect(code in (0, 1, 2), said)
        ends.append(code)
    made = sorted(path.name for path in place.iterdir())
    expected = {"data", "here", "outside", "b.toml"}
    if set(made) - expected:
        raise FailedError("outside", f"made beside: {made}")
    return f"codes {ends}"


def _pack_name(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    (place / "outside").mkdir()
    name = name.replace("OUT", "outside").replace("/abs", str(place / "outside"))
    _good_pack(place / "data")
    file = place / "data" / "p" / "pack.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"name": name}))
    return _try_pack(work, place)


def _pack(work: Workshop, place: Path, rng: random.Random, change: dict[str, Any]) -> str:
    _good_pack(place / "data")
    file = place / "data" / "p" / "pack.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    return _try_pack(work, place)


PACKS: dict[str, dict[str, Any]] = {
    "a size of 0": {"image_size": 0},
    "a size of 60,000": {"image_size": 60_000},
    "a size of 5,000 digits": {"image_size": 10**4000},
    "channels of 2": {"channels": 2},
    "offsets behind the end": {"class_offsets": [0, *range(8, 8 * 17 + 1, 8), 2**40]},
    "offsets that fall": {"class_offsets": list(range(144, -1, -8))},
    "names that are numbers": {"class_names": list(range(18))},
    "names that are half characters": {"class_names": ["\ud800"] * 18},
    "one name for all classes": {"class_names": ["same"] * 18},
    "a split that does not exist": {"class_split": ["train"] * 17 + ["x"]},
    "a newer format": {"format": "metadrift-pack/99"},
    "text for a table": {"class_offsets": "x"},
}


def _special(work: Workshop, place: Path, rng: random.Random, name: str, how: str) -> str:
    _good_pack(place / "data")
    file = place / "data" / "p" / name
    head = file.read_bytes()
    file.unlink()
    if how == "a pipe":
        os.mkfifo(file)
    elif how == "endless":
        file.write_bytes(head)
        os.truncate(file, 2**40)
    else:
        file.symlink_to("/dev/zero")
    (place / "here").mkdir()
    ends = []
    for words in (
        ["data", "preview", file.parent], ["data", "list", "--data", place / "data"],
        ["data", "difficulty", file.parent],
    ):  # fmt: skip
        words = [*words]
        code, said = work.call(place / "here", *words, sabotage=["little_memory", 3 * 2**30])
        expect(code in (0, 1), said)
        ends.append(code)
    return f"codes {ends}"


def _png(size: int = 9) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (size, size), "red").save(file, "PNG")
    return file.getvalue()


def _zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _zip_bomb(folder: Path) -> Path:
    """200 pictures of 64 MB of zeros each, in 13 MB."""
    path = folder / "s.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for n in range(40):
            archive.writestr(f"c{n % 4}/{n}.png", b"\0" * 2**26)
    return path


def _picture_bomb(folder: Path) -> Path:
    """60,000 x 60,000 pixels by the header."""
    import struct
    import zlib

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 2**20)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return _zip(folder / "s.zip", {f"c{n % 4}/{n}.png": png for n in range(8)})


def _nested(folder: Path) -> Path:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("c0/1.png", _png())
    return _zip(folder / "s.zip", {f"c{n}/{n}.zip": inner.getvalue() for n in range(4)})


def _tar(kind: bytes, name: str, target: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "s.tar"
        with tarfile.open(path, "w") as archive:
            for n in range(8):
                info = tarfile.TarInfo(f"s/c{n % 4}/{n}.png")
                info.size = len(_png())
                archive.addfile(info, io.BytesIO(_png()))
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        return path

    return make


def _names(*names: str) -> Callable[[Path], Path]:
    good = {f"s/c{n % 4}/{n}.png": _png() for n in range(8)}
    return lambda folder: _zip(folder / "s.zip", good | {name: _png() for name in names})


def _link_out(folder: Path) -> Path:
    for n in range(8):
        (folder / "s" / f"c{n % 4}").mkdir(parents=True, exist_ok=True)
        (folder / "s" / f"c{n % 4}" / f"{n}.png").write_bytes(_png())
    (folder / "s" / "c0" / "9.png").symlink_to("/etc/passwd")
    return folder / "s"


EVIL = Path(tempfile.gettempdir()) / "metadrift-torture-evil.png"
ARCHIVES: dict[str, Callable[[Path], Path]] = {
    "pictures that swell": _zip_bomb,
    "pictures of 60,000 pixels": _picture_bomb,
    "archives inside": _nested,
    "a soft link out": _tar(tarfile.SYMTYPE, "s/c0/x.png", "/etc/passwd"),
    "a hard link out": _tar(tarfile.LNKTYPE, "s/c0/x.png", "../../../etc/passwd"),
    "a device": _tar(tarfile.CHRTYPE, "s/c0/x.png", ""),
    "a pipe": _tar(tarfile.FIFOTYPE, "s/c0/x.png", ""),
    "a name with ../": _names("../../evil.png"),
    "an absolute name": _names(str(EVIL)),
    "a drive letter": _names("C:\\evil.png"),
    "names of control codes": _names("s/c0/\x1b[31m.png", "s/\u202ec/1.png"),
    "a name of 5,000 letters": _names("s/c0/" + "x" * 5000 + ".png"),
    "a link out of a folder": _link_out,
}


def _archive(work: Workshop, place: Path, rng: random.Random, make: Callable[[Path], Path]) -> str:
    (place / "source").mkdir()
    (place / "here").mkdir()
    source = make(place / "source")
    words = ["data", "import", "folder", source, "--out", place / "data", "--size", "8"]
    with untouched(place / "source", place / "here"):
        code, said = work.call(
            place / "here", *words, "--workers", "1", "--name", "p",
            sabotage=["little_memory", 3 * 2**30],
        )  # fmt: skip
    (place / "here" / "said.txt").unlink(missing_ok=True)
    expect(code in (0, 1), said)
    made = sorted(path.name for path in place.iterdir())
    folders = (place.parent, place.parent.parent, EVIL.parent)
    above = [path for folder in folders for path in folder.glob("*evil*.png")]
    if set(made) - {"data", "here", "source"} or above:
        raise FailedError("outside", f"made beside: {made}, above: {above}")
    left = sorted(path.name for path in (place / "data").glob("*")) if code else []
    expect(not left, f"refused, but left {left}")
    return f"{code}: {shortened(said)}"


def _task(path: str) -> str:
    """A task of four pictures, one of them hostile."""
    support, query = {"a": [path], "b": ["1.png"]}, {"a": ["2.png"], "b": ["3.png"]}
    return json.dumps({"support": support, "query": query})


MANIFESTS = {  # a picture outside may be read, nothing else
    "a path outside to what is no picture": _task("../secret.png"),
    "an absolute path to what is no picture": _task("/etc/passwd"),
    "a device": _task("/dev/zero"),
    "a pipe": _task("pipe.png"),
    "a folder": _task(".."),
    "a link to a device": _task("link.png"),
    "a path of 5,000 letters": _task("x" * 5000),
    "a path with a zero": _task("a\0b"),
    "a path that is no text": json.dumps({"support": {"a": [3]}, "query": {}}),
    "deep nesting": "[" * 10_000,
    "5,000 digits": f'{{"support": {HUGE}}}',
    "half a character": '{"support": {"\\ud800": ["a"]}, "query": {}}',
}


def _manifest(work: Workshop, place: Path, rng: random.Random, line: str) -> str:
    """In this process: no command reads manifests."""
    (place / "secret.png").write_text("a secret")
    home = place / "m"
    home.mkdir()
    for n in range(1, 4):
        (home / f"{n}.png").write_bytes(_png())
    os.mkfifo(home / "pipe.png")
    (home / "link.png").symlink_to("/dev/zero")
    (home / "good.jsonl").write_text(_task("2.png").replace('"2.png"', '"./2.png"', 1) + "\n")
    (home / "bad.jsonl").write_text(line + "\n")
    two = {"geometry": TaskGeometry(2, 1, 1), "image_size": 8, "tasks_per_step": 1}
    expect(len(list(ManifestStream(home / "good.jsonl", **two))) == 1, "a good task was not read")
    try:
        batches = list(ManifestStream(home / "bad.jsonl", **two))
    except MetadriftError as error:
        expect("a secret" not in str(error) and "root:" not in str(error), str(error)[:300])
        return f"refused: {shortened(str(error).removeprefix(str(home)))}"
    except Exception as error:
        raise FailedError("traceback", repr(error)) from error
    raise FailedError("wrong", f"{len(batches)} batches were read")


def _picture_pipe(work: Workshop, place: Path, rng: random.Random) -> str:
    _link_out(place)
    (place / "s" / "c0" / "9.png").unlink()
    os.mkfifo(place / "s" / "c0" / "9.png")
    words = ["data", "import", "folder", place / "s", "--out", place / "data", "--size", "8"]
    code, said = work.call(place, *words, "--workers", "1")
    expect(code == 0, said)
    return shortened(said)


def _alternating(value: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.where(rng.random((400, 3)) < 0.5, value, -value)


VECTORS = {
    "finite numbers of 1e300": _alternating(1e300),
    "the largest numbers": _alternating(1.7e308),
    "the smallest numbers": _alternating(5e-324),
    "the same number": np.full((400, 3), 1e300),
    "a jump to 1e300": np.concatenate([_alternating(1.0), _alternating(1e300)]),
    "infinity": np.full((400, 3), np.inf),
    "one NaN": np.where(np.arange(1200).reshape(400, 3) == 900, np.nan, 1.0),
    "one row": np.zeros((1, 3)),
    "no row": np.zeros((0, 3)),
    "whole numbers": np.full((400, 2), 2**62),
}  # fmt: skip


def _vectors(work: Workshop, place: Path, rng: random.Random, values: np.ndarray) -> str:
    np.save(place / "v.npy", values)
    found = []
    for mode in ("default", "fourier", "paper"):
        code, said = work.call(place, "detect", place / "v.npy", "--mode", mode, "--window", "20")
        expect(code in (0, 1), said)
        expect("Warning" not in said, f"{mode} warns: {said[:800]}")
        if not np.isfinite(values).all():
            expect(code == 1, f"{mode} took NaN or infinity: {said[:500]}")
        if values.size > 100 and np.isfinite(values).all():
            expect(code == 0, f"{mode} refused finite numbers: {said[:500]}")
        found.append(code)
    return f"codes {found}"


def _vector_pipe(work: Workshop, place: Path, rng: random.Random) -> str:
    os.mkfifo(place / "v.npy")
    return work.refused(place, "detect", place / "v.npy")


def _class_folder(work: Workshop, place: Path, rng: random.Random) -> str:
    _link_out(place)
    (place / "s" / "c0" / "9.png").unlink()
    (place / "s" / "c0").rename(place / "s" / BAD_NAME)
    (place / "s" / BAD_NAME / os.fsdecode(b"\xfe.png")).write_bytes(b"no picture")
    words = ["data", "import", "folder", place / "s", "--out", place / "data", "--size", "8"]
    code, said = work.call(place, *words, "--workers", "1")
    expect(code == 0, said)
    for more in (["list", "--data", place / "data"], ["preview", place / "data" / "s"]):
        code, said = work.call(place, "data", *more)
        expect(code == 0, said)
    return shortened(said)


def _data_list(work: Workshop, place: Path, rng: random.Random) -> str:
    for name in ("good", "bad", "worse"):
        _good_pack(place / "data", name)
    (place / "data" / "bad").rename(place / "data" / BAD_NAME)
    file = place / "data" / "worse" / "pack.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"name": "w\udcffrse"}))
    for words in (["list"], ["verify"], ["list", "--json"], ["verify", "--json"]):
        code, said = work.call(place, "data", *words, "--data", place / "data")
        expect(code in (0, 1) and "good" in said, said)
    return shortened(said)


def _run_folder(work: Workshop, place: Path, rng: random.Random) -> str:
    run = work.finished(place).rename(place / BAD_NAME)
    ends = []
    for words in (
        ["resume", run], ["report", run], ["watch", run, "--once"], ["watch", run, "--json"],
        ["report", run, "--json"], ["report", run, "--figures", place / BAD_NAME / "f"],
    ):  # fmt: skip
        code, said = work.call(place, *words)
        expect(code == 0, f"{words}: {said}")
        ends.append(code)
    shutil.rmtree(run)
    code, said = work.run(place, work.config, BAD_NAME + "2")
    expect(code in (0, 1, 2), said)
    return f"codes {[*ends, code]}"


def _shown_pack(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    _good_pack(place / "data")
    file = place / "data" / "p" / "pack.json"
    names = [f"{name} {c}" for c in range(18)]
    changed = json.loads(file.read_text()) | {"class_names": names}
    changed |= {"name": name} if "/" not in name else {}
    file.write_text(json.dumps(changed))
    return _try_pack(work, place)


def _variant(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    """A comparison of two runs, from its grid to its page."""
    text = work.benchmark.read_text().replace('"dark"\nsteps', json.dumps(name) + "\nsteps")
    text = text.replace('pack = "', f'pack = "{work.home}/')
    (place / "b.toml").write_text(text)
    settings = {"benchmark": "b.toml", "ways": 3, "queries": 2, "test_tasks": 2, "stage_tasks": 2}
    both = [{"name": name, "method": "reservoir"}, {"name": "two", "method": "sequential"}]
    grid = {
        "title": name,
        "seeds": [0],
        "reference": name,
        "settings": settings | {"learn": {"filters": 4}},
        "variants": both,
    }
    (place / "g.toml").write_text(to_toml(grid))
    words = ["compare", "--grid", place / "g.toml", "--out", place / "out", "--name", "c"]
    code, said = work.call(place, *words)
    expect(code == 0, said)
    for more in (["report", place / "out" / "c"], ["watch", place / "out" / "c", "--once"]):
        code, said = work.call(place, *more)
        expect(code == 0, said)
    made = sorted(path.name for path in place.iterdir())
    if set(made) - {"b.toml", "g.toml", "out", "said.txt"}:
        raise FailedError("outside", f"made beside: {made}")
    return f"{code}: {shortened(said)}"


TINY = ["--scale", "0.001", "--size", "12"]
DETECT = ["detect", "v.npy"]
GOOGOL = "1" + "0" * 400
USES: dict[str, list[str]] = {
    "report on a path of 300 letters": ["report", "a" * 300],
    "watch on a path of 300 letters": ["watch", "a" * 300],
    "resume on a path of 300 letters": ["resume", "a" * 300],
    "run with a name of 300 letters": ["run", "--name", "a" * 300],
    "run with a configuration of 300 letters": ["run", "--config", "a" * 300],
    "run with a benchmark of 300 letters": ["run", "--benchmark", "a" * 300 + ".toml"],
    "preview of a path of 300 letters": ["data", "preview", "a" * 300],
    "import of a path of 300 letters": ["data", "import", "folder", "a" * 300],
    "import under a name of 300 letters": ["data", "import", "folder", ".", "--name", "a" * 300],
    "verify of a path of 5,000 letters": ["data", "verify", "a" * 5000],
    "a path with a zero byte": ["report", "a\0b"],
    "detect with seed -1": [*DETECT, "--seed", "-1"],
    "detect with a false alarm in 10^400 steps": [*DETECT, "--false-alarm-every", GOOGOL],
    "detect with a false alarm in 5,000 digits": [*DETECT, "--false-alarm-every", HUGE],
    "detect with a window of 10^30": [*DETECT, "--window", "1" + "0" * 30],
    "detect with a seed of 10^400": [*DETECT, "--seed", GOOGOL],
    "run of size 0": ["run", "--size", "0"],
    "run of size 60,000": ["run", "--size", "60000", "--scale", "0.001"],
    "run of size -5": ["run", "--size", "-5"],
    "run with a seed of 10^400": ["run", "--seed", GOOGOL, *TINY],
    "run with 10^9 ways": ["run", "--ways", "1000000000", *TINY],
    "run with 10^9 shots": ["run", "--shots", "1000000000", *TINY],
    "run with a memory of 10^18": ["run", "--memory.capacity", "1" + "0" * 18, *TINY],
    "run with 10^9 filters": ["run", "--learn.filters", "1000000000", *TINY],
    "run with 10^9 threads": ["run", "--threads", "1000000000", *TINY],
    "generate of size 0": ["data", "generate", "--size", "0"],
    "generate of size 60,000": ["data", "generate", "--size", "60000"],
    "import of size 0": ["data", "import", "folder", ".", "--size", "0"],
    "import of size 60,000": ["data", "import", "folder", ".", "--size", "60000"],
    "preview of no classes": ["data", "preview", "x", "--classes", "0"],
}  # fmt: skip


def _use(work: Workshop, place: Path, rng: random.Random, words: list[str]) -> str:
    np.save(place / "v.npy", np.random.default_rng(0).normal(size=(400, 3)))
    code, said = work.call(place, *words, sabotage=["little_memory", 3 * 2**30])
    expect(code in (1, 2) or words[0] == "detect", f"it was taken: {said[-500:]}")
    expect("Warning" not in said, said[:800])
    return f"{code}: {shortened(said)}"


STAY = '[[segments]]\ndomain = "d"\n'
SETTINGS = {
    "config.toml with 5,000 digits": ("c.toml", f"seed = {HUGE}"),
    "config.toml with text for a number": ("c.toml", 'seed = "x"'),
    "config.toml with a date": ("c.toml", "seed = 2020-01-01"),
    "config.toml nested too deeply": ("c.toml", "x = " + "[" * 20_000),
    "config.toml that is not UTF-8": ("c.toml", b"seed = 1 # \xff"),
    "config.toml with NaN": ("c.toml", "lr = nan"),
    "config.toml with infinity": ("c.toml", "scale = inf"),
    "config.toml with an unknown key": ("c.toml", "sed = 1"),
    "benchmark with 5,000 digits": ("b.toml", f"memory = {HUGE}\n[[segments]]\nsteps = 1"),
    "benchmark with 10^21 steps": ("b.toml", f"{STAY}steps = 1000000000000000000000"),
    "benchmark with a pack outside that is none": ("b.toml", f'{STAY}steps = 1\npack = "/etc"'),
    "grid with 5,000 digits": ("g.toml", f"seeds = [{HUGE}]"),
    "grid of nothing": ("g.toml", ""),
}  # fmt: skip


def _settings(work: Workshop, place: Path, rng: random.Random, file: str, text: Any) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    (place / file).write_bytes(data)
    words = {
        "c.toml": ["run", "--config", place / file],
        "b.toml": ["run", "--benchmark", place / file],
        "g.toml": ["compare", "--grid", place / file],
    }[file]
    said = work.refused(place, *words)
    left = {path.name for path in place.iterdir()} - {file, "said.txt"}
    expect(not left, f"refused, but left {left}")
    return said
