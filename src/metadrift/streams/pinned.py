"""The identity of a domain's pack, by content, so that another pack is never used instead."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from metadrift.data.pack import Pack
from metadrift.errors import MetadriftError


@dataclass(frozen=True)
class PackIdentity:
    """The identity of a pack for a stream.

    Parameters
    ----------
    name, source
        The name and the source that the pack states. They are shown, not compared.
    sha256
        Of its examples, as its pack.json says.
    classes
        sha256 of which rows belong to which class, and which class to which split.
    """

    name: str
    source: str
    sha256: str
    classes: str

    @classmethod
    def of(cls, pack: Pack) -> PackIdentity:
        classes = json.dumps([pack.class_offsets, pack.class_split])
        digest = hashlib.sha256(classes.encode()).hexdigest()
        return cls(pack.name, pack.source, pack.sha256, digest)


def refuse_others(pinned: Mapping[str, PackIdentity], packs: Mapping[str, Pack]) -> None:
    """Raise where a domain is pinned and its pack has other content."""
    for domain, wanted in pinned.items():
        if domain not in packs:
            continue
        pack, found = packs[domain], PackIdentity.of(packs[domain])
        if found.sha256 != wanted.sha256:
            what, here, then = "other examples", found.sha256, wanted.sha256
        elif found.classes != wanted.classes:
            what, here, then = "its classes divided otherwise", found.classes, wanted.classes
        else:
            continue
        origin = f" (from {wanted.source!r}; here from {found.source!r})"
        raise MetadriftError(
            f"pack {domain!r} at {pack.path} has {what}: sha256 {here}, but the run was begun with "
            f"{then}{origin if found.source != wanted.source else ''}. Put that pack back, or "
            "start a new run on a benchmark of the new one"
        )
