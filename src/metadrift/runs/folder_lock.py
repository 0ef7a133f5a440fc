"""One program at a time in a run's folder, and nothing is written outside of it."""

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
def folder_lock(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Make the folder and hold it; a second program is told which process has it.

    It waits up to `patience` seconds for the program that has it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder)
        with lock(folder / LOCK, f"{folder} is being run", patience):
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


def refuse_links(folder: Path) -> None:
    """Raise when something in a run's folder leads elsewhere: a foreign run could have us write,
    cut or delete there."""
    inside = [folder, folder / "checkpoints", *(folder / "checkpoints").glob("*step-*")]
    inside.append(folder / "domains")  # of independent training, each a run of its own
    for place in inside:
        for entry in [place, *place.iterdir()] if place.is_dir() else [place]:
            if entry.is_symlink() and entry != folder:
                raise MetadriftError(
                    f"{entry} is a link, and a run's folder must hold its files itself: put what "
                    "it leads to in its place, or remove it"
                )


def _remove_half_written(folder: Path) -> None:
    """What a killed program left of the files that are renamed when whole."""
    for name in (CONFIG, BENCHMARK, "summary.json"):
        for path in folder.glob(f".{name}.*"):
            path.unlink(missing_ok=True)
