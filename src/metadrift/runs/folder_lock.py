"""Lock a run's folder for one program, and refuse links that lead out of it."""

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
    """Make the folder and lock it. A second program gets an error that names the holder.

    Waits up to `patience` seconds for the program that holds the lock.
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
    """Raise if a link, a pipe or a device is in a run's folder.

    Following a link from an untrusted run could write, cut or delete files elsewhere. The same
    holds for a file with a second name (a hard link). Opening a pipe could wait for ever.
    """
    inside = [folder, folder / "checkpoints", *(folder / "checkpoints").glob("*step-*")]
    inside.append(folder / "domains")  # independent training: one run per domain
    for place in inside:
        for entry in [place, *place.iterdir()] if place.is_dir() else [place]:
            if entry.is_symlink() and entry != folder:
                raise MetadriftError(
                    f"{entry} is a link, and a run's folder must hold its files itself: put what "
                    "it leads to in its place, or remove it"
                )
            if entry.exists() and not (entry.is_file() or entry.is_dir()):
                raise MetadriftError(f"{entry} is a pipe or a device, not a file; remove it")
            if entry.is_file() and entry.stat().st_nlink > 1:
                raise MetadriftError(
                    f"{entry} is a hard link: another name leads to the same file, and a run would "
                    "change both. Put a copy of it in its place"
                )


def _remove_half_written(folder: Path) -> None:
    """Remove the temporary files of a program that was killed."""
    for name in (CONFIG, BENCHMARK, "summary.json"):
        for path in folder.glob(f".{name}.*"):
            path.unlink(missing_ok=True)
