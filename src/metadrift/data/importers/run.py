"""Carry out a plan: decode and resize in worker processes, and write the pack class by class."""

from __future__ import annotations

import io
import itertools
import multiprocessing
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metadrift.data.importers.plan import Piece, Plan, Unreadable
from metadrift.data.importers.report import ImportReport
from metadrift.data.importers.source import READ_ERRORS, Source
from metadrift.data.importers.splits import WAYS
from metadrift.data.pack import SPLITS, Split, open_pack, write_pack
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures

_BATCH = 64  # images per job: few enough to share out, enough to be worth sending
_FEW = 256  # below this, starting another process takes longer than the work

Progress = Callable[[int], None]  # called with the number of images just done
Job = tuple[int, list[tuple[Piece, bytes | None]]]  # class, pieces with their bytes if read already
Made = tuple[NDArray[np.uint8], list[Unreadable]]


def import_plan(
    plan: Plan,
    path: Path,
    name: str,
    *,
    size: int,
    strict: bool = False,
    replace: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> ImportReport:
    """Make the pack at `path`; after an error nothing is left behind.

    With `strict` the first unreadable file is an error. Otherwise such files are left out and
    listed in the report.
    """
    start = time.perf_counter()
    form = Pictures(size, plan.channels)
    unreadable: list[Unreadable] = []

    def on_result(made: Made, expected: int) -> NDArray[np.uint8]:
        unreadable.extend(made[1])
        if strict and unreadable:
            raise MetadriftError(
                f"{unreadable[0].name} cannot be read: {unreadable[0].reason}. Nothing was "
                "written; without --strict such files are left out and listed."
            )
        if progress:
            progress(expected)
        return made[0]

    workers = max(1, min(workers, plan.count // _FEW))
    rows = _in_archive_order if plan.source and plan.source.sequential else _in_class_order
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        classes = _enough(plan, rows(plan, form, workers, path.parent, on_result), unreadable)
        write_pack(path, name, classes, source=plan.origin, licence=plan.licence, replace=replace)
    except OSError as error:
        raise MetadriftError(f"the pack cannot be written to {path}: {error}") from None
    pack = open_pack(path)
    by_split = {split: len(pack.classes(split)) for split in SPLITS}
    notes = plan.notes + notes_on_splits(by_split)
    seconds = time.perf_counter() - start
    return ImportReport(path, name, len(pack.images), by_split, unreadable, notes, seconds)


def notes_on_splits(classes: dict[Split, int]) -> list[str]:
    """Warnings about splits that are too small for a run."""
    notes = [f"there are no {split} classes" for split, count in classes.items() if not count]
    for split, count in classes.items():
        if 0 < count < WAYS:
            way_out = "a task needs 2" if count == 1 else f"use --ways {count} there"
            notes.append(f"too few {split} classes for {WAYS}-way tasks: {count}; {way_out}")
    return notes


OnResult = Callable[[Made, int], NDArray[np.uint8]]
ClassRows = Iterator[tuple[str, Split, NDArray[np.uint8]]]


def _in_class_order(
    plan: Plan, form: Pictures, workers: int, _: Path, on_result: OnResult
) -> ClassRows:
    """For sources that can be read in any order: one class in memory at a time."""
    jobs: Iterator[Job] = (
        (c, [(piece, None) for piece in batch])
        for c, planned in enumerate(plan.classes)
        for batch in _batches(planned.pieces)
    )
    results = _carry_out(jobs, plan.source, form, workers)
    for c, group in itertools.groupby(results, key=lambda result: result[0][0]):
        blocks = [on_result(made, _expected(job)) for job, made in group]
        yield plan.classes[c].name, plan.classes[c].split, np.concatenate(blocks)


def _in_archive_order(
    plan: Plan, form: Pictures, workers: int, beside: Path, on_result: OnResult
) -> ClassRows:
    """For a compressed tar: one pass in its order into a temporary file, then class by class."""
    assert plan.source is not None
    wanted: dict[str, list[tuple[int, int, Piece]]] = {}
    for c, planned in enumerate(plan.classes):
        for p, piece in enumerate(planned.pieces):
            wanted.setdefault(str(piece.member), []).append((c, p, piece))
    missing = set(wanted) - set(plan.source.names)
    on_result((_empty(form), [Unreadable(m, "listed, but not there") for m in sorted(missing)]), 0)
    places: list[tuple[int, int]] = []

    def jobs() -> Iterator[Job]:
        for member, data in source.stream(wanted.keys()):
            for c, p, piece in wanted[member]:
                places.append((c, p))
                yield c, [(piece, data)]

    source = plan.source
    where: dict[tuple[int, int], tuple[int, int]] = {}
    with tempfile.TemporaryFile(dir=beside) as scratch:
        end = 0
        for n, (job, made) in enumerate(_carry_out(jobs(), None, form, workers)):
            block = on_result(made, _expected(job))
            scratch.write(np.ascontiguousarray(block).data)
            where[places[n]] = (end, len(block))
            end += len(block)
        scratch.flush()
        shape = (end, form.size, form.size, form.channels)
        whole = np.memmap(scratch, np.uint8, "r", shape=shape) if end else _empty(form)
        for c, planned in enumerate(plan.classes):
            spots = [where.get((c, p), (0, 0)) for p in range(len(planned.pieces))]
            blocks = [whole[first : first + count] for first, count in spots]
            yield planned.name, planned.split, np.concatenate([_empty(form), *blocks])


def _enough(plan: Plan, classes: ClassRows, unreadable: list[Unreadable]) -> ClassRows:
    filled = 0
    for row in classes:
        filled += len(row[2]) > 0
        yield row
    if filled < 2:
        why = f"; {unreadable[0].name}: {unreadable[0].reason}" if unreadable else ""
        raise MetadriftError(
            f"there are {filled} classes with images of {len(plan.classes)} found, and "
            f"{len(unreadable)} unreadable files{why}. A pack needs at least 2 classes."
        )


def _batches(pieces: list[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    for piece in pieces:
        if batch and sum(p.count for p in batch) + piece.count > _BATCH:
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def _carry_out(
    jobs: Iterable[Job], source: Source | None, form: Pictures, workers: int
) -> Iterator[tuple[Job, Made]]:
    """Do the jobs, in this process or in others; the results come in the order of the jobs."""
    if workers <= 1:
        for job in jobs:
            yield job, _make(job, source, form)
        return
    # spawn: a forked copy of a process that has torch's threads may hang
    pool = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), _start_worker, (source, form)
    )
    running: deque[tuple[Job, Future[Made]]] = deque()
    try:
        for job in jobs:
            running.append((job, pool.submit(_work, job)))
            if len(running) > 4 * workers:  # limits how much is read ahead
                done, future = running.popleft()
                yield done, future.result()
        while running:
            done, future = running.popleft()
            yield done, future.result()
    except BrokenProcessPool:
        raise MetadriftError(
            "a worker process ended in the middle of its work (out of memory?); "
            "try again with --workers 1"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_mine: tuple[Source | None, Pictures]  # set in each worker process


def _start_worker(source: Source | None, form: Pictures) -> None:
    global _mine
    _mine = source, form
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends us


def _work(job: Job) -> Made:
    return _make(job, *_mine)


def _make(job: Job, source: Source | None, form: Pictures) -> Made:
    images: list[NDArray[np.uint8]] = []
    unreadable: list[Unreadable] = []
    for piece, data in job[1]:
        try:
            if data is not None:
                found = list(piece.make(io.BytesIO(data), form))
            elif piece.member is not None and source is not None:
                with source.open(piece.member) as file:
                    found = list(piece.make(file, form))
            else:
                found = list(piece.make(None, form))
        except FileNotFoundError:
            found = [Unreadable(str(piece.member), "listed, but not there")]
        except READ_ERRORS as error:
            found = [Unreadable(str(piece.member), str(error) or type(error).__name__)]
        for one in found:
            if isinstance(one, Unreadable):
                unreadable.append(one)
            else:
                images.append(one)
    return np.stack(images) if images else _empty(form), unreadable


def _expected(job: Job) -> int:
    return sum(piece.count for piece, _ in job[1])


def _empty(form: Pictures) -> NDArray[np.uint8]:
    return np.empty((0, form.size, form.size, form.channels), np.uint8)
