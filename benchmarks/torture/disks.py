"""Disks that are full or read-only, as small file systems of their own."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from kills import METHODS
from trial import FailedError, Trial, Workshop, expect, shortened

from metadrift.runs.checkpoint import checkpoints, load_checkpoint
from tiny_runs import assert_same_run

FULL, READ_ONLY = "a full disk", "a read-only folder"
IMPORT = ["data", "import", "folder", "--workers", "1"]
TINY = ["--test-tasks", "2", "--stage-tasks", "0", "--learn.filters", "4"]
TINY += ["--checkpoint-every", "3"]
COMPARE = ["compare", "--methods", "reservoir", "--seeds", "0", "--ways", "3", "--queries", "2"]


def trials() -> Iterator[Trial]:
    for method in METHODS:
        yield Trial(FULL, f"{method} on a small disk", partial(_full, method=method))
    yield Trial(FULL, "an import on a small disk", _full_import)
    yield Trial(FULL, "a report on a small disk", _full_report)
    yield Trial(FULL, "a comparison on a small disk", _full_comparison)
    for what in ("run", "resume", "report", "import", "preview", "compare"):
        yield Trial(READ_ONLY, f"{what} in a read-only folder", partial(_read_only, what=what))


@contextlib.contextmanager
def _disk(place: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of this size; needs the right to mount."""
    disk = place / "disk"
    disk.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk))
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        raise FailedError("wrong", f"no file system can be mounted here: {done.stderr.strip()}")


def _full(work: Workshop, place: Path, rng: random.Random, method: str) -> str:
    config, size = replace(work.config, method=method, keep=5), rng.randint(8, 160)
    with _disk(place, size) as disk:
        code, said = work.call(place, *work.driver._run(place, config, "run")[:3],
                               "--out", disk, "--name", "run", "--json")  # fmt: skip
        expect(code in (0, 1), f"{code}: {said[-800:]}")
        if code:
            expect(len(said.strip().splitlines()) == 1, said[:800])
        for path in checkpoints(disk / "run" / "checkpoints"):
            load_checkpoint(path)
        _mount("-o", "remount,size=16m", str(disk))
        if (disk / "run" / "config.toml").exists():
            work.goes_on_to_the_same(disk / "run", config)
        return f"{size} KB: {shortened(said) if code else 'enough'}"


def _full_import(work: Workshop, place: Path, rng: random.Random) -> str:
    from hostile_data import _link_out

    source = _link_out(place)
    (source / "c0" / "9.png").unlink()
    with _disk(place, 8) as disk:
        said = work.refused(place, *IMPORT, source, "--out", disk)
        left = sorted(path.name for path in disk.iterdir())
        expect(not left, f"left behind: {left}")
        return said


def _full_report(work: Workshop, place: Path, rng: random.Random) -> str:
    run = work.finished(place)
    with _disk(place, 8) as disk:
        said = work.refused(place, "report", run, "--out", disk / "page.html")
        left = sorted(path.name for path in disk.iterdir())
        expect(not left, f"left behind: {left}")
        return said


def _full_comparison(work: Workshop, place: Path, rng: random.Random) -> str:
    """With more room the same command ends with the numbers of a comparison without an accident."""
    words = [*COMPARE, "--benchmark", work.benchmark, *TINY, "--name", "c", "--json"]
    code, said = work.call(place, *words, "--out", place / "whole")
    expect(code == 0, said[-800:])
    with _disk(place, rng.randint(20, 60)) as disk:
        code, said = work.call(place, *words, "--out", disk)
        expect(code == 1 and "No space left" in said, f"{code}: {said[-800:]}")
        _mount("-o", "remount,size=16m", str(disk))
        code, told = work.call(place, *words, "--out", disk)
        if code:
            raise FailedError("lost", told[-800:])
        (run,) = [path.parent for path in (disk / "c").glob("*/summary.json")]
        assert_same_run(place / "whole" / "c" / run.name, run)
    return shortened(said)


def _read_only(work: Workshop, place: Path, rng: random.Random, what: str) -> str:
    """By a mount: modes mean nothing to root."""
    from hostile_data import _good_pack, _link_out

    with _disk(place, 4000) as disk:
        run = work.stopped(disk) if what == "resume" else work.finished(disk)
        source = _link_out(disk)
        (source / "c0" / "9.png").unlink()
        pack = _good_pack(disk)
        words = {
            "run": [*work.driver._run(place, work.config, "new")[:3], "--out", disk, "--name", "n"],
            "resume": ["resume", run],
            "report": ["report", run],
            "import": [*IMPORT, source, "--out", disk, "--name", "n"],
            "preview": ["data", "preview", pack, "--out", disk / "p.png"],
            "compare": [*COMPARE, "--benchmark", work.benchmark, "--out", disk, "--name", "c"],
        }[what]  # fmt: skip
        _mount("-o", "remount,ro", str(disk))
        said = work.refused(place, *words, says="ead-only file system")
        if what == "resume":
            _mount("-o", "remount,rw", str(disk))
            code, told = work.call(place, "resume", run, "--json")
            if code:
                raise FailedError("lost", told[-800:])
        return said
