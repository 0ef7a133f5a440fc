"""A run's folder before the first step: its settings, and whether it is free to use."""

from __future__ import annotations

import re
from pathlib import Path

from metadrift.errors import MetadriftError
from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import RunConfig, load_config, to_toml
from metadrift.runs.resolve import (
    BENCHMARK,
    CONFIG,
    OtherSettingsError,
    depends_on,
    refuse_difference,
)
from metadrift.storage.files import write_atomically
from metadrift.storage.reading import read_json
from metadrift.streams import Benchmark, load_benchmark

# The files of a run that ended before its first checkpoint.
_BEGUN = re.compile(
    r"\.lock|\.(config\.toml|benchmark\.toml|summary\.json|metrics\.csv)\..*|config\.toml|benchmark\.toml"
    r"|(metrics|events)\.jsonl|metrics\.csv|memory(-\d+)?\.bin|log\.txt|report\.html|tensorboard|checkpoints"
)

_WAY_OUT = "choose another --name, or remove {folder}"


def is_unused(folder: Path) -> bool:
    """True if starting a run here would lose nothing: no checkpoint, no result, no other file."""
    if not folder.is_dir():
        return not folder.exists()
    if checkpoints(folder / "checkpoints") or not _settings_are_ours(folder):
        return False
    domains = folder / "domains"  # independent training: one run per domain
    rest = [entry for entry in folder.iterdir() if entry != domains]
    inside = [*domains.iterdir()] if domains.is_dir() else []
    return all(_BEGUN.fullmatch(e.name) for e in rest) and all(is_unused(e) for e in inside)


def _settings_are_ours(folder: Path) -> bool:
    """False for a config.toml or benchmark.toml that a person wrote."""
    if not (folder / BENCHMARK).is_file():
        return not (folder / CONFIG).exists()
    return b"[pinned." in (folder / BENCHMARK).read_bytes()


def refuse_taken(folder: Path) -> None:
    """Raise if the folder holds a run or other files."""
    if is_unused(folder):
        return
    if (folder / CONFIG).is_file():
        goes_on = f"`metadrift resume {folder}` goes on with it, another --name begins a new run"
        raise MetadriftError(f"{folder} exists already: {goes_on}")
    raise MetadriftError(f"{folder} exists already and is no run; choose another --name or --out")


def write_settings(folder: Path, config: RunConfig, benchmark: Benchmark) -> None:
    """Write everything that the run depends on, except for its packs."""
    write_atomically(folder / BENCHMARK, benchmark.to_toml())
    write_atomically(folder / CONFIG, to_toml(config))


def refuse_other_run(folder: Path, config: RunConfig, benchmark: Benchmark) -> None:
    """Raise if the run in a folder has other settings, and name the first one."""
    there = read_settings(folder)
    before = depends_on(there, load_benchmark(there.benchmark))
    refuse_difference(
        str(folder), before, depends_on(config, benchmark), _WAY_OUT.format(folder=folder)
    )


def refuse_other_result(folder: Path, config: RunConfig, benchmark: Benchmark) -> None:
    """The same for a finished run, by the settings in its summary.

    If the benchmark is not pinned, packs and unresolved settings are not compared.
    """
    before = read_json(folder / "summary.json").get("settings")
    way_out = _WAY_OUT.format(folder=folder)
    if not isinstance(before, dict):
        raise OtherSettingsError(
            f"{folder} does not record the settings of its result, so an earlier version made it; "
            f"{way_out}"
        )
    now = depends_on(config, benchmark)
    if not benchmark.pinned:
        now = {name: value for name, value in now.items() if value is not None}
        before = {name: before.get(name) for name in now}
    refuse_difference(str(folder), before, now, way_out)


def read_settings(folder: Path) -> RunConfig:
    """The settings of the run in a folder."""
    if not (folder / CONFIG).is_file():
        raise MetadriftError(f"{folder} is not a run's folder: it has no {CONFIG}")
    if not (folder / BENCHMARK).is_file():
        raise MetadriftError(
            f"{folder} has no {BENCHMARK}: it was begun by metadrift 0.1, and only that version "
            f"goes on with it. `metadrift run --config {folder / CONFIG}` does the run anew"
        )
    return load_config(folder / CONFIG)
