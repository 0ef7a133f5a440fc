"""Checkpoints: a nested state as safetensors and JSON, written atomically.

`checkpoints/step-N/` holds `tensors.safetensors` (every tensor and array of the state, named by
its path) and `state.json` (everything else, and the sha256 of both and of every file beside them).
Nothing is pickled or unpickled.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from metadrift.errors import MetadriftError
from metadrift.storage.files import new_folder, remove_unfinished
from metadrift.storage.reading import open_regular, read_json

FORMAT = "metadrift-checkpoint/2"
# Errors that untrusted values may raise when a state is restored, or in the steps after it.
FOREIGN: tuple[type[Exception], ...] = (KeyError, TypeError, AttributeError, ValueError, IndexError)
FOREIGN += (ArithmeticError, MemoryError, RuntimeError, AssertionError)
DAMAGE: tuple[type[Exception], ...] = (*FOREIGN, OSError, SafetensorError)
TENSORS = "tensors.safetensors"
_FILES = r"(tensors|shard-\d+)\.safetensors"
_TENSOR, _ARRAY = "tensor", "array"


def save_checkpoint(
    folder: Path, step: int, state: dict[str, Any], keep: int = 2, beside: Path | None = None
) -> Path:
    """Write `folder/step-N` and then remove all but the newest `keep`.

    The files in the folder `beside`, if there is one, become part of the checkpoint.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path = save_checkpoint(Path(place), 7, {"weights": torch.ones(2), "label": 3})
    ...     path.name, load_checkpoint(path)["label"]
    ('step-7', 3)
    """
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"step-{step}"
    tensors: dict[str, Tensor] = {}
    shape = _take_apart(state, "", tensors)
    try:
        with new_folder(target, replace=True) as temporary:
            save_file(tensors, temporary / TENSORS)
            for file in beside.iterdir() if beside else ():
                file.rename(temporary / file.name)
            saved = {"format": FORMAT, "step": step, "sha256": sums(temporary, shape)}
            text = json.dumps(saved | {"state": shape})
            (temporary / "state.json").write_text(text, encoding="utf-8")
    except (OSError, SafetensorError) as error:  # a full disk raises either
        size = sum(t.numel() * t.element_size() for t in tensors.values()) / 1e6
        kept = checkpoints(folder)
        before = f"The one before it, {kept[-1]}, is whole." if kept else "There is none before it."
        raise MetadriftError(
            f"the checkpoint {target} could not be written ({getattr(error, 'strerror', error)}); "
            f"it needs {size:.1f} MB on that disk. {before}"
        ) from None
    if beside:
        beside.rmdir()
    prune(folder, keep)
    return target


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The state that was saved, with the same tensors, arrays and values."""
    saved = read_json(path / "state.json", finite=False)
    if saved.get("format") != FORMAT:
        found = saved.get("format")
        if not isinstance(found, str) or not found.startswith("metadrift-checkpoint/"):
            raise MetadriftError(f"{path} is not a checkpoint: its format is {found!r}")
        raise MetadriftError(
            f"{path} has the format {found!r}, and this version of metadrift reads {FORMAT!r}: go "
            "on with the version that wrote it, or start a new run"
        )
    try:
        written = saved["sha256"]
        names = [TENSORS, *(name for name in written if name not in ("state", TENSORS))]
        for name in names:
            if not re.fullmatch(_FILES, name):
                raise MetadriftError(f"{path} is damaged: {name!r} is no file of a checkpoint")
            _refuse_lying_header(path, name)
        found = sums(path, saved["state"], names)
        for name in ["state", *found]:
            if found[name] != written[name]:
                wrong = "state.json" if name == "state" else name
                raise MetadriftError(f"{path} is damaged: {wrong} is not as it was written")
        tensors = load_file(path / TENSORS)
        state = _put_together(saved["state"], tensors)
    except DAMAGE as error:
        raise MetadriftError(f"{path} is damaged: {error}") from None
    if not isinstance(state, dict):
        raise MetadriftError(f"{path} is damaged: state.json holds no state")
    return state


def _refuse_lying_header(path: Path, name: str) -> None:
    """Notice a file that is shorter or longer than it says before all of it is read."""
    open_regular(path / name).close()
    try:
        with safe_open(path / name, "pt"):
            pass
    except (SafetensorError, MemoryError):
        raise MetadriftError(f"{path} is damaged: {name} is not as it was written") from None


def sums(path: Path, state: Any, names: Sequence[str] | None = None) -> dict[str, str]:
    """sha256 of the state of a checkpoint, and of its files: by default of all but state.json."""
    found = {"state": hashlib.sha256(json.dumps(state).encode()).hexdigest()}
    if names is None:
        names = sorted(file.name for file in path.iterdir() if file.name != "state.json")
    for name in names:
        with open_regular(path / name) as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def checkpoints(folder: Path) -> list[Path]:
    """All whole checkpoints of a folder, oldest first."""
    if not folder.is_dir():
        return []
    found = [(re.fullmatch(r"step-(\d+)", path.name), path) for path in folder.iterdir()]
    return [path for _, path in sorted((int(m[1]), path) for m, path in found if m)]


def steps_of(paths: Sequence[Path]) -> list[int]:
    """The step of each checkpoint."""
    return [int(path.name.removeprefix("step-")) for path in paths]


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest `keep`."""
    for old in checkpoints(folder)[: -max(keep, 1)]:
        shutil.rmtree(old, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of a writer that was killed."""
    if folder.is_dir():
        remove_unfinished(folder, r"step-\d+")
        for path in folder.glob(".step-*"):  # shards
            shutil.rmtree(path, ignore_errors=True)


def _take_apart(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """Move tensors and arrays out of a nested value. The rest is JSON."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous()
        return {_TENSOR: name}
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(np.ascontiguousarray(value))
        return {_ARRAY: name, "shape": list(value.shape)}
    if isinstance(value, dict):
        return {"dict": {k: _take_apart(v, f"{name}/{k}", tensors) for k, v in value.items()}}
    if isinstance(value, list | tuple):
        return [_take_apart(v, f"{name}/{i}", tensors) for i, v in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a checkpoint cannot hold {name}: {type(value).__name__}")


def _put_together(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_put_together(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        return tensors[value[_TENSOR]]
    if _ARRAY in value:
        return tensors[value[_ARRAY]].numpy().reshape(value["shape"])
    return {key: _put_together(entry, tensors) for key, entry in value["dict"].items()}
