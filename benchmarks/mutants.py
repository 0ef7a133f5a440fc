"""How much of a wrong change do the tests notice? Mutation testing, room by room.

    python benchmarks/mutants.py --sample 300
    python benchmarks/mutants.py --sample 40 --rooms evaluation --out .bench/evaluation.jsonl

Draws a random sample of small wrong changes (benchmarks/mutations.py), makes each in a copy of the
tree, and runs the doctests of the changed file and the tests of its room until the first failure.
Tests marked slow come last. A change that no test fails on has survived. Results are lines of JSON:
the same command again continues where it was stopped, and a mutant of a file that has changed since
is new. The working tree is only read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mutations import Change, changes_of

ROOT = Path(__file__).parents[1]
ROOMS = {
    "detection": ["tests/detection"],
    "memory": ["tests/memory"],
    "replay": ["tests/replay"],
    "methods": ["tests/methods", "tests/checks/test_every_method.py"],
    "learners": ["tests/learners", "tests/checks/test_every_learner.py"],
    "streams": ["tests/streams"],
    "evaluation": ["tests/evaluation"],
    "runs": [
        "tests/runs",
        *(f"tests/reliability/test_{name}.py" for name in ("resume", "numbers", "settings")),
        "tests/reliability/test_foreign_checkpoints.py",
    ],
}
# Files that tests beside their room hold too.
MORE = {
    "src/metadrift/evaluation/protocol.py": ["tests/scale/test_two_processes.py"],
    "src/metadrift/runs/plugins.py": ["tests/plugins/test_plugins.py"],
    "src/metadrift/runs/build.py": ["tests/plugins/test_plugins.py"],
    "src/metadrift/runs/config.py": ["tests/plugins/test_plugins.py"],
    "src/metadrift/runs/checkpoint.py": ["tests/reliability/test_stop_and_disk.py"],
    "src/metadrift/runs/saving.py": ["tests/scale/test_two_processes.py"],
}
EVERY = ["tests/test_values.py", "tests/test_randomness.py"]  # hold the whole package


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    room: str
    file: str
    change: Change
    id: str


@dataclass
class Worker:
    """A copy of the tree, and the process that tests a mutant in it."""

    tree: Path
    process: int = 0
    mutant: Mutant | None = None
    since: float = 0.0


class SlowLast:
    """A pytest plug-in: most mutants fail a quick test, so the slow tests come last."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, default=300, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS), choices=list(ROOMS))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to test")
    parser.add_argument("--out", type=Path, default=ROOT / ".bench" / "mutants.jsonl")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as home:
        tree = copy_tree(given.root, Path(home) / "tree")
        every = [mutant for room in given.rooms for mutant in mutants_of(tree, room)]
        chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
        print(f"{len(chosen)} of {len(every)} mutants", flush=True)
        run(tree, chosen, given.out, given.workers)
    results = read_results(given.out)
    tell([results[mutant.id] for mutant in chosen])


def mutants_of(root: Path, room: str) -> Iterator[Mutant]:
    """Every mutant of a room; the id tells the file's content, the place and the change."""
    for path in sorted((root / "src" / "metadrift" / room).rglob("*.py")):
        text, file = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        for change in changes_of(text):
            what = json.dumps([file, text, asdict(change)])
            yield Mutant(room, file, change, hashlib.sha256(what.encode()).hexdigest()[:16])


def run(tree: Path, mutants: list[Mutant], out: Path, n: int) -> None:
    """Test what has no result yet, `n` at a time in copies of `tree`, and append the results."""
    done = read_results(out)
    waiting = [mutant for mutant in mutants if mutant.id not in done][::-1]
    if not waiting:
        return
    copies = [tree.with_name(f"{tree.name}-{number}") for number in range(n)]
    workers = [Worker(Path(shutil.copytree(tree, copy))) for copy in copies]
    _load_first()
    limits = {}
    for room in sorted({mutant.room for mutant in waiting}):
        seconds = _baseline(workers[0], ROOMS[room])
        limits[room] = 60 + 5 * seconds
        print(f"{room}: tests pass without a change; limit {limits[room]:.0f} s", flush=True)
    try:
        while waiting or any(worker.mutant for worker in workers):
            for worker in workers:
                if worker.mutant and (result := _result(worker, limits[worker.mutant.room])):
                    shutil.copyfile(tree / worker.mutant.file, worker.tree / worker.mutant.file)
                    worker.mutant = None
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(result) + "\n")
                    print(f"{result['result']:9}{result['seconds']:5.0f} s  {_line(result)}")
                    sys.stdout.flush()
                if not worker.mutant and waiting:
                    _begin(worker, waiting.pop())
            time.sleep(0.05)
    finally:
        for worker in workers:
            if worker.mutant:
                _end(worker.process)


def copy_tree(root: Path, tree: Path) -> Path:
    """The files that git knows, as they are now, with byte code that is checked by content."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, tree / name)
    # By time and size a change of the same length within a second would not be seen.
    words = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(tree / "src")]
    subprocess.run([sys.executable, *words], check=True)
    return tree


def read_results(out: Path) -> dict[str, dict[str, Any]]:
    if not out.is_file():
        return {}
    lines = out.read_text(encoding="utf-8").splitlines()
    return {result["id"]: result for result in map(json.loads, lines)}


def tell(results: list[dict[str, Any]]) -> None:
    """The share of killed mutants by room, and every survivor."""
    survivors = [result for result in results if result["result"] == "survived"]
    total, alive = (Counter(result["room"] for result in rows) for rows in (results, survivors))
    print()
    for room, count in total.items():
        print(f"{room:12}{count - alive[room]:4} of {count:4} killed")
    killed = len(results) - len(survivors)
    print(f"{'all':12}{killed:4} of {len(results):4} killed, {100 * killed / len(results):.1f} %")
    for result in sorted(survivors, key=_line):
        print(f"survived: {_line(result)}")


def _line(result: dict[str, Any]) -> str:
    change = result["change"]
    before, after = (" ".join(change[side].split()) for side in ("before", "after"))
    return f"{result['file']}:{change['line']} {change['kind']}: {before} -> {after}"


def _load_first() -> None:
    """What every test process needs is loaded once; each mutant's process is a fork of this one."""
    import hypothesis
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch

    torch.set_num_threads(1)
    # The same examples every time, and no limit on their time: a loaded machine kills no mutant.
    hypothesis.settings.register_profile("mutants", derandomize=True, deadline=None)
    hypothesis.settings.load_profile("mutants")
    assert "metadrift" not in sys.modules


def _baseline(worker: Worker, tests: list[str]) -> float:
    """See that the tests pass without a change; gives the seconds that they take."""
    worker.process, worker.since = _fork(worker.tree, tests), time.monotonic()
    _, status = os.waitpid(worker.process, 0)
    seconds = time.monotonic() - worker.since
    if status:
        log = (worker.tree / "log.txt").read_text(errors="replace")
        raise SystemExit(f"{' '.join(tests)} fail without any change:\n{log[-3000:]}")
    return seconds


def _begin(worker: Worker, mutant: Mutant) -> None:
    file = worker.tree / mutant.file
    file.write_text(mutant.change.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
    tests = ROOMS[mutant.room] + MORE.get(mutant.file, []) + EVERY
    tests = [mutant.file, *_nearest_first(worker.tree, tests, mutant.file)]
    worker.mutant, worker.since = mutant, time.monotonic()
    worker.process = _fork(worker.tree, tests)


def _nearest_first(tree: Path, tests: list[str], file: str) -> list[str]:
    """Test files, those first that name the changed module or are named after it."""
    stem = Path(file).stem
    files = [path for test in tests for path in _test_files(tree / test)]

    def far(path: Path) -> tuple[bool, bool]:
        return stem not in path.name, f".{stem} import" not in path.read_text(encoding="utf-8")

    return [path.relative_to(tree).as_posix() for path in sorted(files, key=far)]


def _test_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(path.rglob("test_*.py"))  # none in a tree without this folder


def _fork(tree: Path, tests: list[str]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()  # with what it starts, so that all of it can be ended
        os.chdir(tree)
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(
            PYTHONPATH=str(tree / "src"), PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1"
        )
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(tree / "src")]
        import pytest

        options = ["-x", "-q", "-p", "no:xdist", "--basetemp=.tmp"]
        options += ["-o", f"cache_dir={tree.parent / 'cache'}"]  # built-in domains, once for all
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # loaded before the fork
        code = pytest.main([*options, *tests], plugins=[SlowLast()])
        sys.stdout.flush()
        os._exit(int(code))
    except BaseException:
        traceback.print_exc()
        os._exit(70)


def _result(worker: Worker, limit: float) -> dict[str, Any] | None:
    """What came of the worker's mutant, once it is known."""
    assert worker.mutant is not None
    ended, status = os.waitpid(worker.process, os.WNOHANG)
    seconds = time.monotonic() - worker.since
    if not ended and seconds < limit:
        return None
    _end(worker.process, reap=not ended)
    result = "timeout" if not ended else "killed" if status else "survived"
    return asdict(worker.mutant) | {"result": result, "seconds": round(seconds, 1)}


def _end(process: int, reap: bool = True) -> None:
    """End a mutant's process and all that it has started."""
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        return
    if reap:
        os.waitpid(process, 0)


if __name__ == "__main__":
    main()
