"""Vectors and arrays from .npz, .npy, .csv and .parquet files to a pack."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from metadrift.data.any_order import pack_from_blocks
from metadrift.data.example_files import Block, Columns, read_blocks
from metadrift.data.importers.report import ImportReport
from metadrift.data.importers.run import notes_on_splits
from metadrift.data.pack import SPLITS
from metadrift.errors import MetadriftError
from metadrift.examples import FloatType


def import_vectors(
    source: Path,
    path: Path,
    name: str,
    columns: Columns,
    *,
    dtype: FloatType = "float32",
    per_class: int | None = None,
    replace: bool = False,
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Make the pack at `path`; after an error nothing is left behind."""
    start = time.perf_counter()

    def counted() -> Iterator[Block]:
        for block in read_blocks(source, columns, dtype):
            yield block
            if progress:
                progress(len(block.examples))

    try:
        pack = pack_from_blocks(
            counted(),
            path,
            name=name,
            per_class=per_class,
            source=f"vectors in {source.name}",
            replace=replace,
        )
    except OSError as error:
        raise MetadriftError(f"the pack cannot be written to {path}: {error}") from None
    by_split = {split: len(pack.classes(split)) for split in SPLITS}
    seconds = time.perf_counter() - start
    notes = [f"examples are {pack.kind}", *notes_on_splits(by_split)]
    return ImportReport(path, name, len(pack.examples), by_split, [], notes, seconds, "examples")
