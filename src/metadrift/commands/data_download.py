"""`metadrift data download`: fetch a dataset from where it is published, then import it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from metadrift.commands.arguments import Flag, call
from metadrift.commands.data_import import import_dataset
from metadrift.data.download.fetch import Patience, fetch
from metadrift.data.download.published import BY_HAND, DATASETS, Published
from metadrift.data.library import data_folder
from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.progress import Bar

DatasetName = Literal["omniglot", "cub", "aircraft", "quickdraw", "miniimagenet", "necessities"]


def main(words: list[str]) -> int:
    return call(download, "data download", words)


def download(
    dataset: tyro.conf.Positional[DatasetName],
    /,
    *,
    out: Path | None = None,
    archives: Path | None = None,
    url: str | None = None,
    import_: Annotated[bool, tyro.conf.arg(name="import")] = True,
    size: int = 84,
    whole: Flag = False,
    replace: Flag = False,
    attempts: int = 6,
    wait: float = 1.0,
) -> int:
    """Download a dataset from where its authors publish it, and make a pack of it.

    A stopped download continues where it stopped. Lost connections and busy servers are tried
    again. A file is used only if it is complete and its published checksum is right. Read each
    dataset's terms; docs/download.md has the addresses.

    miniimagenet and necessities cannot be downloaded by a program. For them the command says where
    they are published and where to put the files.

    Parameters
    ----------
    dataset
        The dataset.
    out
        The data folder; the pack becomes a folder in it. By default METADRIFT_DATA, else the user's
        data folder.
    archives
        The folder for the downloaded files; by default downloads/DATASET in the data folder. They
        may be removed after the import.
    url
        A mirror: a web address under which the files have the same names.
    import_
        Make the pack when all files are there; --no-import only downloads.
    size
        Height and width of the images in the pack, in pixels.
    whole
        quickdraw: the whole files (23 GB) instead of the first 2 MiB of each, which hold more than
        the 600 drawings per class that the import keeps.
    replace
        Replace a pack that exists.
    attempts
        Tries in a row without a new byte before it gives up.
    wait
        Seconds before the second try; doubled each time.
    """
    if dataset in BY_HAND:
        raise MetadriftError(BY_HAND[dataset])
    if attempts < 1 or wait < 0:
        raise UsageError("--attempts must be at least 1 and --wait not negative")
    published = DATASETS[dataset]
    if whole and published.head is None:
        raise UsageError(f"--whole is for quickdraw; {dataset} is always whole")
    pack = data_folder(out) / dataset
    if import_ and pack.exists() and not replace:
        raise MetadriftError(f"{pack} exists already; --replace puts the new pack in its place")
    folder = archives or data_folder(out) / "downloads" / dataset
    if published.head is not None:
        folder = folder / ("simplified" if whole else "beginnings")
    print(f"{dataset} ({published.page}): {_size(published, whole)} to {folder}", file=sys.stderr)
    _fetch_all(published, folder, url, whole, Patience(attempts, wait))
    print(f"downloaded: {folder}")
    if not import_:
        return 0
    return import_dataset(dataset, folder / published.source, out=out, size=size, replace=replace)


def _fetch_all(
    published: Published, folder: Path, url: str | None, whole: bool, patience: Patience
) -> None:
    with Bar("", None, "bytes") as bar:
        for number, file in enumerate(published.files, 1):
            bar.begin(f"{file.name} ({number} of {len(published.files)})", None, "bytes")
            try:
                fetch(
                    published.address(file, url),
                    folder / file.name,
                    md5=file.md5,
                    head=None if whole else published.head,
                    patience=patience,
                    progress=lambda have, total: bar.update(have, total=total),
                )
            except OSError as error:
                raise MetadriftError(f"{folder / file.name} cannot be written: {error}") from None


def _size(published: Published, whole: bool) -> str:
    return "23 GB" if whole else published.size
