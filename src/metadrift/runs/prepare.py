"""Check all settings of a run, and replace every default by its value, before it has a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from metadrift.distributed.group import Group
from metadrift.errors import MetadriftError
from metadrift.learners import pick_device
from metadrift.learners.precision import resolve_precision
from metadrift.runs.build import build, build_learner, plan
from metadrift.runs.callbacks import loggers
from metadrift.runs.config import RunConfig
from metadrift.runs.resolve import resolved
from metadrift.storage.files import is_folder_name
from metadrift.streams import Benchmark, open_packs


def prepared(
    config: RunConfig, group: Group | None = None, here: bool = True
) -> tuple[RunConfig, Benchmark]:
    """The resolved settings and the benchmark with its packs. Writes nothing.

    `here` is False for a run on another machine, which may have another device.
    """
    loggers(config)
    # Make all parts once with the smallest memory: any error in the settings shows now.
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


def settle_precision(config: RunConfig, group: Group | None = None) -> tuple[RunConfig, str]:
    """The run with `auto` replaced by what is faster here, and a sentence that says why.

    Process 0 of a group decides for all. Any other precision stays, without a sentence.
    """
    if config.precision != "auto":
        return config, ""
    group = group or Group()
    pack = next(iter(open_packs(plan(config, group), config.data, config.size).values()))
    learner = build_learner(replace(config, precision="float32"), pack.kind)
    chosen, why = resolve_precision("auto", learner.to(pick_device(config.device)), config.ways)
    (mixed,) = group.tell([chosen == "bf16"])
    return replace(config, precision="bf16" if mixed else "float32"), why
