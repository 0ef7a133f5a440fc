"""Before a run has a folder: whatever can be refused is refused, and every default is settled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from metadrift.distributed.group import Group
from metadrift.errors import MetadriftError
from metadrift.runs.build import build
from metadrift.runs.config import RunConfig
from metadrift.runs.resolve import resolved
from metadrift.runs.tensorboard import writer_class
from metadrift.storage.files import is_folder_name
from metadrift.streams import Benchmark


def prepared(
    config: RunConfig, group: Group | None = None, here: bool = True
) -> tuple[RunConfig, Benchmark]:
    """The resolved settings and the benchmark with its packs; nothing is written.

    `here` is False for a run that another machine will do, which may have another device.
    """
    if config.tensorboard:
        writer_class()
    # All parts are made once with the smallest memory: what is wrong with any of them shows now.
    trial = replace(
        config,
        memory=replace(config.memory, capacity=1, mapped=False),
        device=config.device if here else "cpu",
    )
    parts = build(trial, Path(), group)
    for domain in parts.tests if config.method == "independent" else ():
        if not is_folder_name(domain):
            raise MetadriftError(
                f"independent training keeps each domain in a folder of its name, and {domain!r} "
                "cannot be one"
            )
    benchmark = parts.benchmark.pinned_to(parts.packs)
    return resolved(config, benchmark, parts.learner), benchmark
