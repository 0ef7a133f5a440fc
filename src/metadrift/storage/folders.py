"""A folder that appears under its name when it is whole, and not before."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metadrift.errors import MetadriftError
from metadrift.storage.lock import lock


@contextmanager
def whole_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """A temporary folder beside `path`, which takes its name at the end; on an error it is removed.

    One program at a time writes a path: a second one is told so. What a program that was killed
    left behind is removed first.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with whole_folder(Path(home, "pets")) as folder:
    ...         _ = (folder / "cat").write_text("meow")
    ...     [entry.name for entry in Path(home).iterdir()], Path(home, "pets", "cat").read_text()
    (['pets'], 'meow')
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock(path.parent / f".{path.name}.lock", f"{path} is being written"):
        _clear(path)
        if path.exists() and not replace:
            raise MetadriftError(f"{path} exists already; remove it or ask to replace it")
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.new.", dir=path.parent))
        try:
            yield temporary
            temporary.chmod(0o755)  # mkdtemp makes it private
            _put_in_place(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _put_in_place(temporary: Path, path: Path) -> None:
    if not path.exists():
        temporary.rename(path)
        return
    # A folder cannot be renamed onto a filled one: the old one steps aside first.
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    path.rename(aside / path.name)
    temporary.rename(path)
    shutil.rmtree(aside, ignore_errors=True)


def _clear(path: Path) -> None:
    """Take away what a killed program left; safe only under the lock."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(new|old)\.[^.]+")
    for left in [entry for entry in path.parent.iterdir() if pattern.fullmatch(entry.name)]:
        if (left / path.name).exists() and not path.exists():
            (left / path.name).rename(path)  # killed between the two renames: the old one goes back
        shutil.rmtree(left, ignore_errors=True)
