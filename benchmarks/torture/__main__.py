"""Hostile trials of the installed command: is anything lost, written outside, or left hanging?

    python benchmarks/torture
    python benchmarks/torture --only "kills" --seed 1 --out .bench/torture-1

A trial kills, starves or deceives tiny runs and looks at what is left. It ends as

- held: every promise of docs/reliability.md was kept;
- lost: a run could not go on from its checkpoint to the numbers of an undisturbed one;
- outside: something was written, changed or deleted outside the folder in question;
- traceback: a command ended in one, or was brought down by a signal of its own;
- hang: a command took longer than its limit;
- wrong: another promise was broken.

Results are lines of JSON in --out: the same command again goes on where it was stopped. What failed
is tried again, and a trial of a source that has changed since is new. The trials run on a copy of
the package, so that nobody changes it under them. It ends with code 1 unless all held. The numbers
of trials and of minutes are bounded (--trials, --minutes).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import accidents
import cluster
import disks
import hostile_data
import hostile_runs
import kills
import pages
import ranks
import shapes
from trial import ENDS, FailedError, Trial, Workshop

import metadrift
from bench import machine, paste
from metadrift.runs.record import versions
from metadrift.storage.terminal import printable

COPY = "TORTURE_COPY"  # in the environment of the process that works on a copy of the package
PARTS = (kills, accidents, disks, ranks, cluster, shapes, hostile_runs, hostile_data, pages)


@dataclass(frozen=True)
class Arguments:
    only: tuple[str, ...] = ()  # kinds or names of trials that hold one of these texts
    seed: int = 0  # of the moments, bits and values that are drawn
    trials: int = 1000  # at most so many now
    minutes: float = 240.0  # begin no trial after this time
    docs: Path | None = None  # put the table into this page, between its marks
    out: Path = Path(".bench/torture")  # where results.jsonl goes


@dataclass(frozen=True)
class Result:
    kind: str
    name: str
    seed: int
    code: str  # a fingerprint of the source
    end: str
    seen: str
    seconds: float


def main(arguments: Arguments) -> int:
    a, console = arguments, Console()
    a.out.mkdir(parents=True, exist_ok=True)
    file, code = a.out / "results.jsonl", versions()["code"]
    asked = [t for t in every_trial() if chosen(t, a.only)]
    done = {r.name: r for r in read(file) if (r.seed, r.code) == (a.seed, code)}
    todo = [t for t in asked if t.name not in done or done[t.name].end != "held"][: a.trials]
    console.print(f"{len(asked)} trials, {len(asked) - len(todo)} done before or not asked for now")
    end = time.monotonic() + 60 * a.minutes
    if todo:
        with tempfile.TemporaryDirectory(prefix="torture-") as home:
            os.environ["METADRIFT_CACHE"] = str(a.out.resolve() / "cache")
            os.environ["METADRIFT_DATA"] = str(Path(home) / "data")
            work = Workshop(Path(home) / "workshop")
            for trial in todo:
                if time.monotonic() > end:
                    console.print("the time is over; the same command again goes on")
                    break
                result = attempt(trial, work, Path(home) / "trial", a.seed, code)
                done[trial.name] = result
                with open(file, "a") as lines:
                    lines.write(json.dumps(asdict(result)) + "\n")
                say(console, result)
            work.close()
    results = [done[trial.name] for trial in asked if trial.name in done]
    console.print(table(results))
    if a.docs:
        paste(a.docs, "torture", markdown(results, len(asked)))
    return 0 if all(result.end == "held" for result in results) else 1


def every_trial() -> list[Trial]:
    """All kinds in turn, so that a part of them is a sample of all."""
    lists = [list(part.trials()) for part in PARTS]
    found = [trial for row in zip_longest(*lists) for trial in row if trial]
    names = [trial.name for trial in found]
    assert len(set(names)) == len(names), [n for n, count in Counter(names).items() if count > 1]
    return found


def chosen(trial: Trial, only: tuple[str, ...]) -> bool:
    return not only or any(text in f"{trial.kind}: {trial.name}" for text in only)


def attempt(trial: Trial, work: Workshop, place: Path, seed: int, code: str) -> Result:
    """One trial in a folder of its own, which is gone afterwards."""
    place.mkdir()
    began, rng = time.monotonic(), random.Random(f"{trial.name} {seed}")
    try:
        end, seen = "held", trial.attempt(work, place, rng)
    except FailedError as error:
        end, seen = error.how, str(error)
    except Exception:
        end, seen = "wrong", traceback.format_exc()
    finally:
        shutil.rmtree(place)
    seconds = round(time.monotonic() - began, 1)
    return Result(trial.kind, trial.name, seed, code, end, seen, seconds)


def read(file: Path) -> list[Result]:
    if not file.exists():
        return []
    return [Result(**json.loads(line)) for line in file.read_text().splitlines()]


def say(console: Console, result: Result) -> None:
    style = "green" if result.end == "held" else "red"
    line = f"{result.end:9s} {result.seconds:6.1f} s  {printable(result.name)}"
    console.print(line, style=style, markup=False, soft_wrap=True)
    if result.end != "held":
        console.print(f"          {printable(result.seen)}", markup=False, soft_wrap=True)


def counted(results: list[Result]) -> list[list[str]]:
    """A row per kind: trials, and how they ended."""
    rows = []
    for kind in dict.fromkeys(result.kind for result in results):
        ends = Counter(result.end for result in results if result.kind == kind)
        rows.append([kind, str(ends.total()), *(str(ends[end]) for end in ENDS)])
    ends = Counter(result.end for result in results)
    return [*rows, ["all", str(ends.total()), *(str(ends[end]) for end in ENDS)]]


def table(results: list[Result]) -> Table:
    shown = Table("kind", "trials", *ENDS)
    for row in counted(results):
        shown.add_row(*row)
    return shown


def markdown(results: list[Result], asked: int) -> str:
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    heads = ["kind", "trials", *ENDS]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in counted(results)]
    seeds = sorted({result.seed for result in results})
    seen = f"{len(results)} of {asked} trials, with seed {', '.join(map(str, seeds))}"
    said = f"Tried: {seen}, on: {about}."
    return said + "\n\n" + "\n".join(lines)


def on_a_copy() -> int:
    """The same command with a copy of the package: a run and its resume must have one source."""
    with tempfile.TemporaryDirectory(prefix="torture-source-") as home:
        package = Path(metadrift.__file__).parent
        shutil.copytree(package, Path(home) / package.name)
        environment = os.environ | {COPY: home, "PYTHONPATH": home}
        return subprocess.run([sys.executable, *sys.argv], env=environment).returncode


if __name__ == "__main__":
    chosen_now = tyro.cli(Arguments, description=__doc__)
    raise SystemExit(main(chosen_now) if COPY in os.environ else on_a_copy())
