"""The memory of a run over several processes, in its checkpoints.

Each process stores its own tasks of every batch. All processes hold the same slots. Process 0
writes its images into the checkpoint; every other process R writes `shard-R.safetensors` beside it.
Joined along the tasks they give the whole batches, so any number of processes can read them.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from metadrift.distributed.group import Group
from metadrift.distributed.resharding import slots_to_keep, with_slots
from metadrift.errors import MetadriftError
from metadrift.storage.files import flush

_KEPT = ("images", "logits")  # [slots, tasks, ...]


def save_shards(checkpoints: Path, step: int, method: dict[str, Any], group: Group) -> Path | None:
    """Write the images of all processes but 0. Returns the folder of the files, if there are any.

    All files exist when this returns.
    """
    if group.size == 1 or "memory" not in method:
        return None
    _check_agreement(method["memory"], group)
    # This name is among those that the next run removes after a crash.
    folder = checkpoints / f".step-{step}.shards"
    if not group.leads:
        _write(folder, group.rank, method["memory"]["buffer"])
    group.wait()
    return folder


def _check_agreement(memory: dict[str, Any], group: Group) -> None:
    """Raise if the processes hold different batches."""
    known = [memory["step"].tobytes(), memory["cluster_slots"].tobytes(), repr(memory["rng"])]
    marks = group.gather([float(zlib.crc32(repr(known).encode()))])
    if len(set(marks.tolist())) > 1:
        raise MetadriftError(
            "the processes of the run no longer hold the same batches, so no checkpoint was "
            "written; do all machines have the same hardware and the same versions?"
        )


def _write(folder: Path, rank: int, buffer: dict[str, Any]) -> None:
    file = folder / f"shard-{rank}.safetensors"
    parts = {name: buffer[name] for name in _KEPT if buffer[name] is not None}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_file(parts, file)
        flush(file)
    except (OSError, SafetensorError) as error:
        raise MetadriftError(f"{file} could not be written: {error}") from None


def my_memory(
    checkpoint: Path,
    state: dict[str, Any],
    saved_by: int,
    group: Group,
    capacity: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """This process's part of the memory that `saved_by` processes saved.

    `state` comes from the checkpoint itself: all steps and labels, and process 0's images. If it
    has more than `capacity` batches, some are dropped.
    """
    kept = slots_to_keep(state, capacity, rng)
    buffer = state["buffer"]
    mine: dict[str, Any] = {"has_logits": np.asarray(buffer["has_logits"])[kept]}
    for name in _KEPT:
        whole = buffer[name] is not None
        mine[name] = _my_tasks(checkpoint, buffer, name, saved_by, group)[kept] if whole else None
    return {**with_slots(state, kept), "buffer": mine}


def _my_tasks(
    checkpoint: Path, first: dict[str, Any], name: str, saved_by: int, group: Group
) -> np.ndarray:
    """[slots, tasks, ...]: from the shards that overlap with this process's tasks."""
    each = np.asarray(first[name]).shape[1]
    share = group.share(each * saved_by)
    parts = []
    for shard in range(share.start // each, (share.stop - 1) // each + 1):
        images = np.asarray(first[name]) if shard == 0 else _read(checkpoint, shard, name)
        begin = shard * each
        parts.append(images[:, max(share.start - begin, 0) : share.stop - begin])
    return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]


def _read(checkpoint: Path, shard: int, name: str) -> np.ndarray:
    file = checkpoint / f"shard-{shard}.safetensors"
    try:
        with safe_open(file, "numpy") as opened:
            return np.asarray(opened.get_tensor(name))
    except FileNotFoundError:
        raise MetadriftError(f"{checkpoint} is not whole: {file.name} is missing") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise MetadriftError(f"{file} is damaged: {error}") from None
