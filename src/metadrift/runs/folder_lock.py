"""One program at a time in a run's folder, and one sentence when the folder cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metadrift.errors import MetadriftError
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.resolve import BENCHMARK, CONFIG
from metadrift.storage.lock import lock

LOCK = ".lock"


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Make the folder and hold it; a second program is told which process has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(folder / LOCK, f"{folder} is being run"):
            _remove_half_written(folder)
            yield
    except BrokenPipeError:
        raise
    except OSError as error:
        kept = checkpoints(folder / "checkpoints")
        last = f"its last checkpoint, {kept[-1].name}, is whole" if kept else "it has no checkpoint"
        raise MetadriftError(
            f"{folder} cannot be written ({error}); {last}. When there is room, "
            f"`metadrift resume {folder}` goes on."
        ) from None


def _remove_half_written(folder: Path) -> None:
    """What a killed program left of the files that are renamed when whole."""
    for name in (CONFIG, BENCHMARK, "summary.json"):
        for path in folder.glob(f".{name}.*"):
            path.unlink(missing_ok=True)
