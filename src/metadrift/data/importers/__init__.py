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
        Looks at the source and says what there is.
    options
        The fields of Options that have a meaning here; `per_class` has one everywhere.
    named
        True when the pack takes the kind's name unless told otherwise, False for the source's.
    """

    plan: Callable[[Path, Options], Plan]
    options: frozenset[str]
    named: bool = True


KindName = Literal[
    "omniglot", "miniimagenet", "cub", "aircraft", "quickdraw", "necessities", "folder", "npz"
]
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
    """Look at a source; UsageError when an option means nothing for this kind."""
    default = Options()
    for option in ("crop_to_box", "rotations", "keep_unrecognized", "grey"):
        if getattr(options, option) != getattr(default, option):
            knowing = [name for name, k in KINDS.items() if option in k.options]
            if kind not in knowing:
                flag = "--" + option.replace("_", "-")
                raise UsageError(f"{flag} means nothing for {kind}; it is for {', '.join(knowing)}")
    if options.per_class is not None and options.per_class < 1:
        raise UsageError(f"--per-class must be at least 1, not {options.per_class}")
    return KINDS[kind].plan(source, options)
