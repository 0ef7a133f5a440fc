"""Run folders that somebody else made: links, pipes, endless files, foreign values and names."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from trial import FailedError, Trial, Workshop, expect, shortened, untouched

from metadrift.runs.config import to_toml

KIND = "hostile run folders"
FILES = [
    ".lock", "metrics.jsonl", "events.jsonl", "config.toml", "benchmark.toml", "memory.bin",
    "summary.json", ".config.toml.abc", ".summary.json.abc", "log.txt", "metrics.csv",
    "checkpoints/step-9/state.json", "checkpoints/step-9/tensors.safetensors",
]  # fmt: skip
FOLDERS = [
    "checkpoints", "tensorboard", "domains", "domains/dark", "checkpoints/step-9",
    "checkpoints/.step-9.new.abc", "checkpoints/.step-9.old.abc", "checkpoints/.step-12.shards",
]  # fmt: skip
READ = ["config.toml", "benchmark.toml", "checkpoints/step-9/state.json"]
READ += ["checkpoints/step-9/tensors.safetensors", "metrics.jsonl", "events.jsonl"]
SHOWN = ["summary.json", "metrics.jsonl", "events.jsonl", "config.toml", "benchmark.toml"]
CELL = "reservoir-protonet-1shot-seed0"  # a run of a comparison
TEXTS = {
    "deep": "[" * 100_000,
    "deep object": '{"a":' * 900 + "1" + "}" * 900,
    "too large": '{"step": 1e999, "accuracy": 1e999, "steps": 1e999}',
    "many digits": f'{{"step": {"9" * 5000}, "steps": {"9" * 5000}}}',
    "text": '{"step": "x", "steps": "x", "accuracy": "x", "seed": "x", "segments": "x"}',
    "nothing": "{}",
    "a list": "[]",
    "half a character": '{"step": 1, "event": "\\ud800", "method": "\\ud800"}',
    "not UTF-8": b"\xff\xfe{}\n",
    "zeros": b"\0" * 5000,
    "empty": b"",
}


def trials() -> Iterator[Trial]:
    for name in FILES + FOLDERS:
        yield Trial(KIND, f"resume with {name} a link", partial(_link, name=name))
    for name in ("metrics.jsonl", "memory.bin", ".lock"):
        yield Trial(KIND, f"resume with {name} a hard link", partial(_hard_link, name=name))
    for name in READ:
        yield Trial(KIND, f"resume with {name} a pipe", partial(_pipe, name=name))
        yield Trial(KIND, f"resume with {name} endless", partial(_endless, name=name))
    for name in SHOWN:
        yield Trial(KIND, f"report and watch with {name} a pipe", partial(_shown_pipe, name=name))
    for what, text in TEXTS.items():
        yield Trial(KIND, f"report and watch on {what}", partial(_foreign_text, text=text))
    for number in range(10):
        yield Trial(KIND, f"report and watch on 12 foreign values, {number}", _foreign_values)
        yield Trial(KIND, f"resume on 12 foreign values with right sums, {number}", _foreign_state)
    for name, change in STATES.items():
        yield Trial(KIND, f"a checkpoint with {name}", partial(_state, change=change))
    yield Trial(KIND, "a report and figures where links lie", _report_links)
    for name in ("grid.json", "comparison.json", "report.html", CELL, f"{CELL}/metrics.jsonl"):
        link = partial(_comparison_link, name=name)
        yield Trial(KIND, f"a comparison in which {name} is a link", link)
    for name, value in EDITS.items():
        yield Trial(KIND, f"config.toml edited: {name}", partial(_edited, name=name, value=value))
    for name in CODE:
        yield Trial(KIND, f"config.toml names code: {name}", partial(_code, name=name))
    for number in range(8):
        yield Trial(KIND, f"metrics cut at any byte, {number}", _cut_metrics)


def _victim(place: Path) -> Path:
    victim = place / "victim"
    (victim / "step-3").mkdir(parents=True)
    (victim / "step-3" / "precious").write_text("keep me")
    (victim / "file").write_text("keep me too")
    return victim


def _put(run: Path, name: str) -> Path:
    """An empty place for something else under a name of the run."""
    path = run / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    return path


def _link(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    run, victim = work.stopped(place), _victim(place)
    there = victim / "file" if name in FILES else victim
    _put(run, name).symlink_to(rng.choice([there, there, victim / "none"]))
    with untouched(victim):
        return work.refused(place, "resume", run, says="is a link")


def _hard_link(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    run, victim = work.stopped(place), _victim(place)
    _put(run, name).hardlink_to(victim / "file")
    with untouched(victim):
        return work.refused(place, "resume", run, says="is a hard link")


def _pipe(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    run = work.stopped(place)
    os.mkfifo(_put(run, name))
    return work.same_or_refused(run, work.mapped)


def _endless(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    """As a sparse file of a terabyte; a link to /dev/zero is refused as a link."""
    run = work.stopped(place)
    file = _put(run, name)
    file.touch()
    os.truncate(file, 2**40)
    return work.same_or_refused(run, work.mapped, lost_lines=name == "metrics.jsonl")


def _show(work: Workshop, place: Path, run: Path) -> str:
    ends = []
    for words in (["report", run], ["watch", run, "--once"], ["watch", run, "--json"]):
        code, said = work.call(place, *words, sabotage=["little_memory", 3 * 2**30])
        expect(code in (0, 1), said)
        if code:
            expect(len(said.strip().splitlines()) == 1, f"more than a sentence: {said[:800]}")
        ends.append(code)
    return f"codes {ends}"


def _shown_pipe(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    run = work.finished(place)
    os.mkfifo(_put(run, name))
    return _show(work, place, run)


def _foreign_text(work: Workshop, place: Path, rng: random.Random, text: str | bytes) -> str:
    found = []
    for name in ("summary.json", "metrics.jsonl", "events.jsonl"):
        shutil.rmtree(place / "run", ignore_errors=True)
        run = work.finished(place)
        data = text.encode() if isinstance(text, str) else text
        (run / name).write_bytes(data + b"\n")
        if name != "summary.json":
            (run / "summary.json").unlink()
        found.append(_show(work, place, run))
    return "; ".join(found)


VALUES: list[Any] = [None, True, -1, 0, 2**70, -1e308, 1e308, 5e-324, "x", "\x1b[31m", "[/b]x", "",
    [], {}, [[]], ["x"], {"x": {}}, [None], "9" * 400, "<script>"]  # fmt: skip


def _mutated(value: Any, rng: random.Random) -> Any:
    """The same value with one entry exchanged, taken away or added."""
    places: list[tuple[Any, Any]] = []

    def walk(inside: Any) -> None:
        keys = list(inside) if isinstance(inside, dict) else range(len(inside))
        for key in keys:
            places.append((inside, key))
            if isinstance(inside[key], dict | list):
                walk(inside[key])

    walk(value)
    if places:
        inside, key = rng.choice(places)
        if rng.random() < 0.2:
            del inside[key]
        else:
            inside[key] = rng.choice(VALUES)
    return value


def _foreign_values(work: Workshop, place: Path, rng: random.Random) -> str:
    ends = []
    for _ in range(12):
        shutil.rmtree(place / "run", ignore_errors=True)
        run = work.finished(place)
        name = rng.choice(["summary.json", "summary.json", "metrics.jsonl", "events.jsonl"])
        lines = (run / name).read_text().splitlines() if name.endswith("l") else None
        if lines is None:
            table = _mutated(json.loads((run / name).read_text()), rng)
            (run / name).write_text(json.dumps(table))
        else:
            if rng.random() < 0.7:
                (run / "summary.json").unlink()
            at = rng.choice([len(lines) - 1, rng.randrange(len(lines))])
            lines[at] = json.dumps(_mutated(json.loads(lines[at]), rng))
            (run / name).write_text("\n".join(lines) + "\n")
        ends.append(_show(work, place, run))
    return f"{len(ends)} files"


def _rewritten(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the state of the newest checkpoint, and make its sums right again."""
    folder = run / "checkpoints" / "step-9"
    saved = json.loads((folder / "state.json").read_text())
    change(saved)
    saved["sha256"] = saved.get("sha256") or {}
    if "state" in saved:
        text = json.dumps(saved["state"])
        saved["sha256"]["state"] = hashlib.sha256(text.encode()).hexdigest()
    tensors = (folder / "tensors.safetensors").read_bytes()
    saved["sha256"]["tensors.safetensors"] = hashlib.sha256(tensors).hexdigest()
    (folder / "state.json").write_text(json.dumps(saved))


def _take_up(work: Workshop, place: Path, run: Path) -> str:
    """Resume: the damaged one is named and the one before it taken, or it is taken as it is."""
    code, said = work.call(place, "resume", run, sabotage=["little_memory", 3 * 2**30])
    expect(code in (0, 1), said)
    if code:
        expect(len(said.strip().splitlines()) <= 5, f"more than a few lines: {said[:800]}")
    return f"{code}: {shortened(said)}"


def _foreign_state(work: Workshop, place: Path, rng: random.Random) -> str:
    for _ in range(12):
        shutil.rmtree(place / "run", ignore_errors=True)
        run = work.stopped(place)
        _rewritten(run, lambda saved: _mutated(saved["state"], rng))
        _take_up(work, place, run)
    return "12 states"


def _state(work: Workshop, place: Path, rng: random.Random, change: Callable[[Path], Any]) -> str:
    run, victim = work.stopped(place), _victim(place)
    with untouched(victim):
        change(run)
        return _take_up(work, place, run)


def _named(name: str) -> Callable[[Path], None]:
    return lambda run: _rewritten(run, lambda saved: saved["sha256"].update({name: "0" * 64}))


def _lying_header(run: Path) -> None:
    """A header that says terabytes, far behind the end of the file."""
    file = run / "checkpoints" / "step-9" / "tensors.safetensors"
    header = {"/method/learner/x": {"dtype": "F32", "shape": [2**38], "data_offsets": [0, 2**40]}}
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 64)
    _rewritten(run, lambda saved: None)


def _long_header(run: Path) -> None:
    file = run / "checkpoints" / "step-9" / "tensors.safetensors"
    file.write_bytes((2**63).to_bytes(8, "little") + b"{}")
    _rewritten(run, lambda saved: None)


def _overlapping(run: Path) -> None:
    file = run / "checkpoints" / "step-9" / "tensors.safetensors"
    one = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    text = json.dumps({"a": one, "b": one}).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 16)
    _rewritten(run, lambda saved: None)


def _no_tensors(run: Path) -> None:
    save_file({"x": np.zeros(1)}, run / "checkpoints" / "step-9" / "tensors.safetensors")
    _rewritten(run, lambda saved: None)


def _set(key: str, value: Any) -> Callable[[Path], None]:
    return lambda run: _rewritten(run, lambda saved: saved["state"]["dict"].update({key: value}))


STATES: dict[str, Callable[[Path], Any]] = {
    "the sum of /dev/zero": _named("/dev/zero"),
    "the sum of a file outside": _named("../../../victim/file"),
    "the sum of a folder": _named(".."),
    "a header that lies about its size": _lying_header,
    "a header longer than the file": _long_header,
    "tensors that overlap": _overlapping,
    "none of its tensors": _no_tensors,
    "a billion processes": _set("processes", 10**9),
    "a step below zero": _set("step", -1),
    "a step behind the end": _set("step", 10**18),
    "lines of metrics below zero": _set("recorder", {"dict": {"metrics_bytes": -5}}),
    "a folder for a number": lambda run: (run / "checkpoints" / "step-12").mkdir(),
    "a step of 200 digits": lambda run: (run / "checkpoints" / f"step-{'9' * 200}").mkdir(),
    "a file for a checkpoint": lambda run: (run / "checkpoints" / "step-12").write_text("x"),
}


def _report_links(work: Workshop, place: Path, rng: random.Random) -> str:
    """Links where a page and its figures are about to be written."""
    run, victim = work.finished(place), _victim(place)
    work.call(place, "report", run, "--figures", run / "figures")
    for path in [run / "report.html", *(run / "figures").iterdir()]:
        path.unlink()
        path.symlink_to(victim / "file")
    with untouched(victim):
        code, said = work.call(place, "report", run, "--figures", run / "figures")
    expect(code == 0 or "is a link" in said, said)
    return f"{code}"


def _comparison_link(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    """It is refused or replaced; what it leads to stays as it was."""
    victim, link = _victim(place), place / "c" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(victim if name == CELL else victim / "file")
    words = ["compare", "--benchmark", work.benchmark, "--ways", "3", "--queries", "2"]
    words += ["--test-tasks", "2", "--stage-tasks", "0", "--learn.filters", "4"]
    words += ["--methods", "reservoir", "--seeds", "0", "--out", place, "--name", "c", "--json"]
    with untouched(victim):
        code, said = work.call(place, *words)
        if code:
            expect(len(said.strip().splitlines()) == 1, said[:800])
            expect(str(link) in said, f"{link} is not named: {said[:500]}")
        else:
            work.call(place, "report", place / "c")
            work.call(place, "watch", place / "c", "--once")
    return f"{code}: {shortened(said) if code else 'replaced'}"


EDITS = {
    "method": '"mir"', "learner": '"anil"', "seed": "7", "lr": "0.5", "shots": "2", "ways": "2",
    "queries": "3", "scale": "0.5", "size": "14", "on_nan": '"skip"', "test_tasks": "9",
}  # fmt: skip


def _edited(work: Workshop, place: Path, rng: random.Random, name: str, value: str) -> str:
    run = work.stopped(place)
    lines = (run / "config.toml").read_text().splitlines()
    expect(any(line.startswith(f"{name} = ") for line in lines), f"no setting {name}")
    new = [f"{name} = {value}" if line.startswith(f"{name} = ") else line for line in lines]
    (run / "config.toml").write_text("\n".join(new) + "\n")
    return work.refused(place, "resume", run, says=name)


CODE = ["method", "learner", "backbone", "optim.name", "memory.rule", "replay.sampler"]
CODE += ["detection.mode", "detection.features"]


def _code(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    """Code that lies in the folder and is named by its settings: no command loads it."""
    ran, ends = place / "the code was run", []
    for make in (work.stopped, work.finished):
        shutil.rmtree(place / "run", ignore_errors=True)
        run = make(place)
        evil = run / "evil.py"
        evil.write_text(f"import os\nos.mkdir({str(ran)!r})\nclass Evil:\n    pass\n")
        table = tomllib.loads((run / "config.toml").read_text())
        *group, key = name.split(".")
        (table[group[0]] if group else table)[key] = f"{evil}:Evil"
        (run / "config.toml").write_text(to_toml(table))
        for words in (
            ["resume", run], ["report", run], ["watch", run, "--once"],
            ["run", "--config", run / "config.toml", "--out", place / "out", "--name", "r"],
        ):  # fmt: skip
            code, said = work.call(place, *words)
            expect(words[0] != "run" or (code == 2 and "was not loaded" in said), said[:800])
            ends.append(code)
    if ran.exists():
        raise FailedError("outside", "code that the folder names was run")
    return f"codes {ends}"


def _cut_metrics(work: Workshop, place: Path, rng: random.Random) -> str:
    run = work.stopped(place)
    file = run / rng.choice(["metrics.jsonl", "events.jsonl"])
    at = rng.randrange(file.stat().st_size)
    os.truncate(file, at)
    code, told = work.call(place, "resume", run)
    expect(code == 0, told)
    code, said = work.call(place, "report", run)
    expect(code == 0, said)
    for line in file.read_text().splitlines():
        json.loads(line)
    work.same(run, work.mapped, lost_lines=f"{file.name} had " in told)
    return f"cut at {at} bytes of {file.name}"
