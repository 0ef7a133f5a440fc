"""The data folder: where packs are kept and found by name."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from metadrift.data.pack import Pack, open_pack
from metadrift.errors import MetadriftError

# The pack that `metadrift data import KIND` makes has the name KIND for these.
NAMED_KINDS = ("quickdraw", "miniimagenet", "omniglot", "cub", "aircraft", "necessities")


def data_folder(option: Path | None = None) -> Path:
    """The folder asked for, else METADRIFT_DATA, else the user's data folder."""
    if option is not None:
        return option
    named = os.environ.get("METADRIFT_DATA")
    return Path(named) if named else Path(platformdirs.user_data_dir("metadrift", appauthor=False))


def find_pack(name_or_path: str | Path, data: Path | None = None) -> Pack:
    """Open a pack by its name in the data folder, or by a path.

    It is a path if it has a separator, or if it is a folder with a pack.json.
    """
    given = Path(name_or_path)
    if len(given.parts) > 1 or given.is_absolute() or (given / "pack.json").is_file():
        return open_pack(given)
    folder = data_folder(data)
    if (folder / given).is_dir():
        return open_pack(folder / given)
    name = str(given)
    raise MetadriftError(
        f"there is no pack {name!r} in {folder}; `{_command_for(name, folder)}` makes it"
    )


def _command_for(name: str, folder: Path) -> str:
    """The command that makes a pack of this name in a folder."""
    from metadrift.data.synthetic.draw import BUILTIN

    if name in BUILTIN:
        return f"metadrift data generate {name} --out {folder}"
    if name in NAMED_KINDS:
        return f"metadrift data import {name} SOURCE --out {folder}"
    return f"metadrift data import KIND SOURCE --out {folder} --name {name}"


def list_packs(folder: Path) -> list[Pack | MetadriftError]:
    """Every pack in a folder, by name; for a damaged one its error."""
    found: list[Pack | MetadriftError] = []
    if not folder.is_dir():
        return found
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not (path / "pack.json").is_file():
            continue
        try:
            found.append(open_pack(path))
        except MetadriftError as error:
            found.append(error)
    return found
