"""The datasets that can be made into packs, one file each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metadrift.data.importers import (
    aircraft,
    cub,
    folder,
    miniimagenet,
    necessities,
    npz,
    omniglot,
    quickdraw,
)
from metadrift.data.importers.plan import Options, Plan
from metadrift.errors import UsageError


@dataclass(frozen=True)
class Kind:
    """One kind of source.

    Parameters
    ----------
    plan
        Lists what the source holds.
    options
        The fields of Options that this kind has; every kind has `per_class`.
    named
        True if the pack is named after the kind by default, False if after the source.
    """

    plan: Callable[[Path, Options], Plan]
    options: frozenset[str]
    named: bool = True


KindName = Literal[
    "omniglot",
    "miniimagenet",
    "cub",
    "aircraft",
    "quickdraw",
    "necessities",
    "folder",
    "npz",
    "vectors",
]
"""All of them make pictures except `vectors`, which has its own code (vectors.py)."""
KINDS: dict[str, Kind] = {
    "omniglot": Kind(omniglot.plan, frozenset({"rotations"})),
    "miniimagenet": Kind(miniimagenet.plan, frozenset({"grey"})),
    "cub": Kind(cub.plan, frozenset({"crop_to_box", "grey"})),
    "aircraft": Kind(aircraft.plan, frozenset({"crop_to_box", "grey"})),
    "quickdraw": Kind(quickdraw.plan, frozenset({"keep_unrecognized"})),
    "necessities": Kind(necessities.plan, frozenset({"grey"})),
    "folder": Kind(folder.plan, frozenset({"grey"}), named=False),
    "npz": Kind(npz.plan, frozenset({"grey", "rotations"}), named=False),
}


def plan_import(kind: str, source: Path, options: Options) -> Plan:
    """Read what a source holds; UsageError if an option does not exist for this kind."""
    default = Options()
    for option in ("crop_to_box", "rotations", "keep_unrecognized", "grey"):
        if getattr(options, option) != getattr(default, option):
            knowing = [name for name, k in KINDS.items() if option in k.options]
            if kind not in knowing:
                flag = "--" + option.replace("_", "-")
                raise UsageError(f"{flag} is not for {kind}; it is for {', '.join(knowing)}")
    if options.per_class is not None and options.per_class < 1:
        raise UsageError(f"--per-class must be at least 1, not {options.per_class}")
    return KINDS[kind].plan(source, options)
