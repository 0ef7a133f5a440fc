"""A trial, how it can fail, and the workshop with what trials share."""

from __future__ import annotations

import contextlib
import random
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driven import STEPS, Driver, short_config
from metadrift.runs.config import MemoryConfig, RunConfig
from tiny_runs import assert_same_run, write_benchmark, write_domain

ENDS = ("held", "lost", "outside", "traceback", "hang", "wrong")
"""How a trial ends; `wrong` is any other promise that was broken."""
LIMIT = 120  # seconds; a tiny command that takes longer hangs
ROOM = 3 * 2**30  # bytes of memory that a command may take for a hostile file


class FailedError(Exception):
    """A promise was broken: `how` is one of ENDS."""

    def __init__(self, how: str, why: str) -> None:
        super().__init__(why)
        self.how = how


@dataclass(frozen=True)
class Trial:
    """`attempt(workshop, place, rng)` raises FailedError, or gives what was seen in a few words."""

    kind: str
    name: str
    attempt: Callable[[Workshop, Path, random.Random], str]


class Workshop:
    """A process that runs commands, tiny domains, and runs to compare with or to damage.

    Parameters
    ----------
    home
        A folder of its own.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True)
        grounds = {"dark": (50, 1), "middle": (120, 3), "bright": (200, 1)}
        for seed, (name, (ground, channels)) in enumerate(grounds.items(), 1):
            write_domain(home, name, seed, ground, channels)
        self.benchmark = write_benchmark(home / "short.toml", STEPS, memory=6)
        self.config: RunConfig = short_config(self.benchmark)
        self._whole: dict[str, Path] = {}
        (home / "driver").mkdir()
        self.driver = Driver(home / "driver", self.config)
        self._second: Driver | None = None

    @property
    def second(self) -> Driver:
        """Another process that runs commands at the same time."""
        if self._second is None:
            (self.home / "second").mkdir()
            self._second = Driver(self.home / "second", self.config)
            self._second(self.home / "second", "--help")  # it has loaded everything by then
        return self._second

    def close(self) -> None:
        self.driver.close()
        if self._second is not None:
            self._second.close()

    def call(
        self, place: Path, *words: Any, sabotage: list[Any] | None = None, limit: float = LIMIT
    ) -> tuple[int, str]:
        """A command in a folder; a traceback, a control code or a hang fails the trial."""
        try:
            code, said = self.driver(place, *words, sabotage=sabotage, limit=limit)
        except TimeoutError as error:
            raise FailedError("hang", str(error)) from None
        refuse_traceback(code, said)
        return code, said

    def refused(self, place: Path, *words: Any, says: str = "", lines: int = 1) -> str:
        """A command that must end in one clear sentence, with little memory."""
        code, said = self.call(place, *words, sabotage=["little_memory", ROOM])
        expect(code in (1, 2), f"{words} ended with {code}: {said[-500:]}")
        if code == 1:  # wrong use is shown in a box
            count = len(said.strip().splitlines())
            expect(0 < count <= lines, f"{count} lines instead of {lines}: {said[:1500]}")
        expect(says in said, f"{says!r} is not in: {said[-800:]}")
        return f"refused: {shortened(said)}"

    def run(
        self, place: Path, config: RunConfig, name: str = "run", sabotage: list[Any] | None = None
    ) -> tuple[int, str]:
        return self.call(place, *self.driver._run(place, config, name), sabotage=sabotage)

    def resume(self, run: Path, sabotage: list[Any] | None = None) -> tuple[int, str]:
        return self.call(run.parent, "resume", run, "--json", sabotage=sabotage)

    def whole(self, config: RunConfig) -> Path:
        """The same run without any accident, made once."""
        key = repr(config)
        if key not in self._whole:
            name = f"whole-{len(self._whole)}"
            code, said = self.run(self.home, config, name)
            expect(code == 0, f"an undisturbed run failed: {said[-800:]}")
            self._whole[key] = self.home / name
        return self._whole[key]

    @property
    def mapped(self) -> RunConfig:
        """The settings of `stopped`."""
        return replace(self.config, memory=MemoryConfig(mapped=True))

    def stopped(self, place: Path) -> Path:
        """A copy of a run with a mapped memory that was killed after its checkpoint of step 9."""
        if not (self.home / "stopped").exists():
            code, said = self.run(self.home, self.mapped, "stopped", ["killed_in_step", 10])
            expect(code == -9, said)
            (self.home / "stopped" / ".lock").unlink(missing_ok=True)
        return Path(shutil.copytree(self.home / "stopped", place / "run"))

    def finished(self, place: Path) -> Path:
        """A copy of a run that came to its end."""
        return Path(shutil.copytree(self.whole(self.config), place / "run"))

    def goes_on_to_the_same(self, run: Path, config: RunConfig) -> None:
        """Resume a run and compare it with the undisturbed one, bit for bit."""
        code, said = self.resume(run)
        if code != 0:
            raise FailedError("lost", f"resume ended with {code}: {said[-800:]}")
        self.same(run, config)

    def same_or_refused(self, run: Path, config: RunConfig, lost_lines: bool = False) -> str:
        """Resume a run: it comes to the same end, or says in one sentence why it cannot go on."""
        code, said = self.resume(run, ["little_memory", ROOM])
        expect(code in (0, 1), f"{code}: {said[-800:]}")
        if code == 0:
            self.same(run, config, lost_lines)
            return "came to the same end"
        expect(len(said.strip().splitlines()) == 1, f"more than a sentence: {said[:800]}")
        return f"refused: {shortened(said)}"

    def same(self, run: Path, config: RunConfig, lost_lines: bool = False) -> None:
        try:
            assert_same_run(self.whole(config), run, lost_lines)
        except AssertionError as error:
            raise FailedError("lost", f"the numbers differ: {str(error)[:300]}") from None


def expect(true: bool, otherwise: str) -> None:
    if not true:
        raise FailedError("wrong", otherwise)


def refuse_traceback(code: int, said: str) -> None:
    if "Traceback (most recent call last)" in said or code in (99, -6, -11):
        raise FailedError("traceback", said[-1500:])
    codes = {c for c in said if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\r\t"}
    expect(not codes, f"control codes {codes} in: {said[:500]!r}")


def shortened(said: str) -> str:
    return " ".join(said.split())[:160]


@contextlib.contextmanager
def untouched(*folders: Path) -> Iterator[None]:
    """Nothing in these folders may change."""
    before = [_contents(folder) for folder in folders]
    yield
    after = [_contents(folder) for folder in folders]
    if before != after:
        changed = {
            name
            for old, new in zip(before, after, strict=True)
            for name in old.keys() | new.keys()
            if old.get(name) != new.get(name)
        }
        raise FailedError("outside", f"changed outside: {sorted(changed)[:9]}")


def _contents(folder: Path) -> dict[str, Any]:
    return {
        str(path): (path.read_bytes() if path.is_file() else None, path.lstat().st_mode)
        for path in sorted(folder.rglob("*"))
        if path.name != "said.txt"
    }
