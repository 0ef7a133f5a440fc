"""Damaged and hostile files for every reader: each must end in success or in one clear error.

    python benchmarks/fuzz_readers.py --cases 200000
    python benchmarks/fuzz_readers.py --reader checkpoint-json --cases 5000 --seed 1

A reader starts from a good file and reads what mutation makes of it. An error that is not a
MetadriftError, a case that takes longer than LIMIT seconds, or a folder that is left half written
counts as a failure; its bytes are kept in --out. With atheris in the environment, `--atheris
SECONDS` lets coverage guide the mutation instead.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fuzz_files import READERS, Reader
from metadrift.errors import MetadriftError

LIMIT = 20  # seconds a case


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A few random changes: bits, bytes, cuts, repeats, numbers and the words that hurt."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(out) + 1)
        length = min(rng.choice([1, 2, 4, 16, 200]), len(out) - at)
        kind = rng.randrange(9)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at : at + length] = rng.randbytes(length)
        elif kind == 2:
            del out[at : at + length]
        elif kind == 3:
            out[at:at] = out[at : at + length] * rng.choice([1, 2, 50])
        elif kind == 4:
            del out[at:]
        elif kind == 5 and (numbers := _numbers(out)):
            first, end = rng.choice(numbers)
            out[first:end] = rng.choice(NUMBERS)
        elif kind == 6:
            out[at : at + length * rng.randrange(2)] = rng.choice(WORDS)
        elif kind == 7 and (words := _strings(out)):
            first, end = rng.choice(words)
            other = rng.choice(words)
            out[first:end] = rng.choice([*WORDS, bytes(out[other[0] : other[1]])])
        elif kind == 8 and (lines := out.splitlines(keepends=True)):
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
            del lines[rng.randrange(len(lines))]
            out = bytearray(b"".join(lines))
    return bytes(out)


NUMBERS = [b"0", b"-1", b"1", b"2147483648", b"9" * 30, b"-9" + b"9" * 30, b"1e999", b"NaN", b"0.5"]
NUMBERS += [
    b"null",
    b"true",
    b'"7"',
    b"[]",
    b"{}",
    b"-Infinity",
    b"1e-400",
    b"18446744073709551616",
]
WORDS = [
    b"",
    b"\0",
    b"../",
    b"/etc/passwd",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"\xff\xfe",
    b"\xef\xbb\xbf",
]
WORDS += [
    b'"',
    b"'",
    b"\\",
    b"\n",
    b"\r\n",
    b"]",
    b"}",
    b"{}",
    b"[]",
    b"null",
    b"\xed\xa0\x80",
    b"\\ud800",
]
WORDS += [
    b"a" * 5000,
    b"<script>",
    b"=",
    b"[[segments]]",
    b"\x80\x04\x95.",
    b"%s%n",
    b"nan",
    b"inf",
]


def _numbers(data: bytearray) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(rb"-?\d+(\.\d+)?", bytes(data))]


def _strings(data: bytearray) -> list[tuple[int, int]]:
    return [match.span(1) for match in re.finditer(rb'"([^"\n]*)"', bytes(data))]


def attempt(reader: Reader, good: Path, case: bytes, place: Path) -> str:
    """Read one case in a copy of the good folder; gives how it ended, raises on a failure."""
    shutil.copytree(good, place, dirs_exist_ok=True)
    file = place / _damaged(good).read_text()
    file.write_bytes(case)
    try:
        with time_limit():
            reader.read(file)
        return "read"
    except MetadriftError as error:
        text = str(error)
        assert text, "an error without a sentence"
        return "refused"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def prepare(reader: Reader, folder: Path) -> bytes:
    """Write the good files; gives the bytes that are going to be damaged."""
    folder.mkdir(parents=True)
    file = reader.make(folder)
    _damaged(folder).write_text(str(file.relative_to(folder)))
    data = file.read_bytes()
    reader.read(file)  # the good file is good
    shutil.rmtree(folder / "out", ignore_errors=True)
    return data


def _damaged(folder: Path) -> Path:
    return folder.with_name(folder.name + ".which")


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    def too_long(*_: object) -> None:
        raise TimeoutError(f"it took more than {LIMIT} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def campaign(name: str, cases: int, seed: int, out: Path) -> tuple[Counter[str], float]:
    """So many cases of one reader; what failed is written to `out`."""
    reader, ends = READERS[name], Counter[str]()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as home:
        good = Path(home) / "good"
        data = prepare(reader, good)
        for number in range(cases):
            case = mutate(data, random.Random(f"{name} {seed} {number}"))
            begin = time.perf_counter()
            try:
                ends[attempt(reader, good, case, Path(home) / "case")] += 1
            except Exception:
                ends["failed"] += 1
                out.mkdir(parents=True, exist_ok=True)
                (out / f"{name}-{seed}-{number}").write_bytes(case)
                (out / f"{name}-{seed}-{number}.txt").write_text(traceback.format_exc())
            slowest = max(slowest, time.perf_counter() - begin)
    return ends, slowest


def guided(name: str, seconds: int, corpus: Path) -> None:
    """Coverage-guided cases with atheris; it ends the process."""
    import atheris

    reader, home = READERS[name], Path(tempfile.mkdtemp())
    data = prepare(reader, home / "good")
    corpus.mkdir(parents=True, exist_ok=True)
    (corpus / "good").write_bytes(data)
    for number in range(40):
        (corpus / f"seed-{number}").write_bytes(mutate(data, random.Random(number)))

    def one(case: bytes) -> None:
        attempt(reader, home / "good", case, home / "case")

    for module, thing in _functions():
        if module.split(".")[0] in ("metadrift", "tomllib", "tarfile", "zipfile"):
            atheris.instrument_func(thing)
    words = [
        sys.argv[0],
        str(corpus),
        f"-max_total_time={seconds}",
        "-max_len=20000",
        "-verbosity=0",
    ]
    atheris.Setup([*words, "-print_final_stats=1"], one)
    atheris.Fuzz()


def _functions() -> Iterator[tuple[str, types.FunctionType]]:
    """Every function and method of the modules that are loaded, once."""
    seen: set[int] = set()
    for module in [m for m in sys.modules.values() if isinstance(m, types.ModuleType)]:
        homes = [module, *(v for v in vars(module).values() if isinstance(v, type))]
        for home in homes:
            for thing in list(vars(home).values()):
                if isinstance(thing, types.FunctionType) and id(thing) not in seen:
                    seen.add(id(thing))
                    yield thing.__module__ or "", thing


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--cases", type=int, default=25_000, help="in all, shared among the readers"
    )
    parser.add_argument("--reader", choices=list(READERS), help="one reader alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--atheris", type=int, metavar="SECONDS", help="needs --reader")
    arguments = parser.parse_args()
    names = [arguments.reader] if arguments.reader else list(READERS)
    if arguments.atheris:
        if not arguments.reader:
            parser.error("--atheris fuzzes one --reader at a time")
        guided(arguments.reader, arguments.atheris, Path(tempfile.mkdtemp()) / "corpus")
    failed = total = 0
    for name in names:
        cases = -(-arguments.cases // len(names))
        ends, slowest = campaign(name, cases, arguments.seed, arguments.out)
        failed, total = failed + ends["failed"], total + cases
        print(
            f"{name:20s} {cases:8d} cases  read {ends['read']:7d}  refused {ends['refused']:7d}  "
            f"failed {ends['failed']:4d}  slowest {slowest:.2f} s",
            flush=True,
        )
    print(f"{total} cases, {failed} failed" + (f"; see {arguments.out}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
