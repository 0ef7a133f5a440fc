"""Runs `metadrift` commands in forked children, and sabotages them as asked.

Loading torch takes seconds, a tiny run less: this process loads everything once, makes the run
of its first order itself, and forks for each further line of JSON on its input, {"words": [...],
"sabotage": [name, argument], "said": file, "folder": where, "limit": seconds}. It answers with the
exit code (negative for a signal), or with `late` for a command that it had to kill after `limit`.
"""

import contextlib
import dataclasses
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

# Loaded here, so that no child has to.
import metadrift.commands.report
import metadrift.runs.checkpoint as checkpoint
import metadrift.runs.loop as loop
import metadrift.storage.files as files
from metadrift import cli

import metadrift.commands.run  # noqa: F401, isort: skip


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def on_call(owner, name, number, before=die, after=None):
    """Have something happen before (or after) the call of this number, counted from 1."""
    true, count = getattr(owner, name), 0

    def counted(*arguments, **more):
        nonlocal count
        count += 1
        if count == number and before:
            before(*arguments)
        result = true(*arguments, **more)
        if count == number and after:
            after(*arguments)
        return result

    setattr(owner, name, counted)


def killed_in_step(number):
    """Killed in the middle of a training step."""
    on_call(loop._Run, "_one_step", number, before=None, after=die)


def nan_in_steps(steps):
    """In these steps of the stream the loss is NaN; killed before the one after `steps[-1]`."""
    *wrong, last = steps
    true = loop._Run._one_step

    def one_step(run, stream):
        if run.state.step == last:
            die()
        poison = run.parts.learner.register_forward_hook(
            lambda _, __, outcome: (
                dataclasses.replace(outcome, loss=outcome.loss * math.nan)
                if run.state.step in wrong
                else None
            )
        )
        true(run, stream)
        poison.remove()

    loop._Run._one_step = one_step


def killed_in_evaluation(number):
    on_call(loop._Run, "_evaluate", number)


def killed_with_half_of_the_tensors(number):
    """Killed when half of a checkpoint's tensors are on disk."""

    def halve(_, file):
        os.truncate(file, os.path.getsize(file) // 2)
        die()

    on_call(checkpoint, "save_file", number, before=None, after=halve)


def killed_before_the_json(number):
    on_call(checkpoint, "save_file", number, before=None, after=die)


def killed_before_flushing(number):
    """Killed when a checkpoint is written, but not yet known to be on the disk."""
    on_call(checkpoint, "save_file", number, before=lambda *_: on_call(files, "flush", 1))


def killed_in_fsync(number):
    on_call(os, "fsync", number)


def killed_before_the_rename(number):
    on_call(Path, "rename", number)


def killed_after_the_rename(number):
    on_call(Path, "rename", number, before=None, after=die)


def killed_while_pruning(number):
    def half(folder, **_):
        (Path(folder) / "state.json").unlink()
        die()

    on_call(shutil, "rmtree", number, before=half)


def killed_before_the_summary(number):
    on_call(os, "replace", number)


def told_in_training(number):
    """The signal of this number arrives in the fourth step."""
    on_call(loop._Run, "_one_step", 4, before=lambda *_: os.kill(os.getpid(), number))


def told_in_evaluation(number):
    on_call(loop._Run, "_evaluate", 1, before=lambda *_: os.kill(os.getpid(), number))


def counts_checkpoints(file):
    """The most checkpoints that are there at a time, into a file."""
    most = 0

    def count(folder, _):
        nonlocal most
        most = max(most, len(checkpoint.checkpoints(folder)))
        Path(file).write_text(str(most))

    true = checkpoint.prune
    checkpoint.prune = lambda folder, keep: (count(folder, keep), true(folder, keep))


def lists_fsyncs(file):
    """The names of the files that are flushed to the disk, in order, into a file."""
    true = os.fsync

    def fsync(handle):
        with open(file, "a") as listed:
            listed.write(os.path.basename(os.readlink(f"/proc/self/fd/{handle}")) + "\n")
        true(handle)

    os.fsync = fsync


def small_files(size):
    """No file may become larger than this, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def little_memory(size):
    """No more than this many further bytes of address space."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def killed_after(seconds):
    """Killed by the system at any instruction, in Python or below it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def clock_jumps(seed):
    """Every clock goes back and forth by up to ten years from call to call."""
    rng = random.Random(seed)
    for name in ("time", "perf_counter", "monotonic"):
        true = getattr(time, name)
        setattr(time, name, lambda true=true: true() + rng.choice([0, 0, -3e8, 3e8, 7200, -7200]))


def main():
    with contextlib.redirect_stdout(sys.stderr):
        assert cli.main(json.loads(sys.stdin.readline())["words"]) == 0
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _obey(order)
        print(_end_of(child, order["limit"]), flush=True)


def _obey(order):
    said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.chdir(order["folder"])
    code = 99
    try:
        if order["sabotage"]:
            name, argument = order["sabotage"]
            globals()[name](argument)
        code = cli.main(order["words"])
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def _end_of(child, limit):
    """Its exit code, or `late`."""
    end = time.monotonic() + (limit or math.inf)
    while True:
        done, status = os.waitpid(child, os.WNOHANG if limit else 0)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "late"
        time.sleep(0.005)


if __name__ == "__main__":
    main()
