"""The good files that benchmarks/fuzz_readers.py damages, and what reads each of them."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from metadrift.data.importers import plan_import
from metadrift.data.importers.plan import Options
from metadrift.data.importers.run import import_plan
from metadrift.data.pack import open_pack, write_pack
from metadrift.errors import MetadriftError
from metadrift.experiments.comparison import saved_grid
from metadrift.experiments.grid import load_grid
from metadrift.runs.checkpoint import load_checkpoint, save_checkpoint
from metadrift.runs.config import RunConfig, load_config, to_toml
from metadrift.runs.record import read_last_line
from metadrift.storage.files import write_json
from metadrift.streams.benchmark import load_benchmark
from metadrift.streams.manifest import ManifestStream
from metadrift.tasks import TaskGeometry


@dataclass(frozen=True)
class Reader:
    """`make` writes the good files into a folder and gives the one to damage; `read` reads them."""

    make: Callable[[Path], Path]
    read: Callable[[Path], object]


def png(grey: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((9, 8, 3), grey, np.uint8)).save(file, "PNG")
    return file.getvalue()


def write(folder: Path, files: dict[str, bytes | str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def a_pack(folder: Path, damaged: str) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        (f"class {c}", split, rng.integers(0, 256, (3, 8, 8, 1), np.uint8))
        for c, split in enumerate(("train", "train", "val", "test"))
    ]
    write_pack(folder / "p", "p", rows, source="here", licence="CC0")  # type: ignore[arg-type]
    return folder / "p" / damaged


def read_pack(file: Path) -> None:
    pack = open_pack(file.parent)
    int(pack.images[-1].sum())
    with contextlib.suppress(MetadriftError):
        pack.verify()


def a_config(folder: Path) -> Path:
    (folder / "config.toml").write_text(to_toml(RunConfig(data=Path("somewhere"))))
    return folder / "config.toml"


def a_benchmark(folder: Path) -> Path:
    text = 'title = "three"\nmemory = 60\ntasks_per_step = 2\n'
    for name in ("porch", "yard", "gate"):
        text += f'[[segments]]\ndomain = "{name}"\nsteps = 20\npack = "packs/{name}"\n'
    (folder / "b.toml").write_text(text)
    return folder / "b.toml"


GRID = """
title = "what it brings"
learners = ["protonet"]
shots = [1, 5]
seeds = [0, 1]
reference = "reservoir"
notes = ["one"]
[settings]
benchmark = "builtin"
scale = 0.05
replay.batches = 2
[[variants]]
method = "reservoir"
[[variants]]
name = "ours"
method = "m2d3-pets"
replay.sampler = "uniform"
[[published]]
variant = "ours"
learner = "protonet"
shots = 1
mean = 50.0
half_width = 0.5
"""


def a_grid(folder: Path) -> Path:
    (folder / "g.toml").write_text(GRID)
    return folder / "g.toml"


def a_saved_grid(folder: Path) -> Path:
    write_json(folder / "grid.json", load_grid(a_grid(folder)).to_json())
    return folder / "grid.json"


def a_manifest(folder: Path) -> Path:
    write(folder, {f"{n}.png": png(20 * n) for n in range(8)})
    task = {
        "support": {"cat": ["0.png"], "dog": ["1.png"]},
        "query": {"cat": ["2.png", "3.png"], "dog": ["4.png", "5.png"]},
    }
    (folder / "tasks.jsonl").write_text(2 * (json.dumps(task) + "\n"))
    return folder / "tasks.jsonl"


def read_manifest(file: Path) -> None:
    for _ in ManifestStream(file, TaskGeometry(2, 1, 2), image_size=8, tasks_per_step=1):
        pass


def a_checkpoint(folder: Path, damaged: str) -> Path:
    state = {
        "step": 6,
        "stages": [{"a": 0.5}],
        "seconds": {"train": 1.25},
        "method": {"learner": {"w": torch.ones(2, 3)}, "lr": [0.1]},
        "memory": {"images": np.zeros((2, 3), np.uint8), "none": None, "on": True},
        "rng": np.random.default_rng(1).bit_generator.state,
    }
    return save_checkpoint(folder / "checkpoints", 6, state) / damaged


def a_metrics_line(folder: Path) -> Path:
    line = {"step": 10, "loss": 1.5, "accuracy": 0.25, "memory": {"0": 1.0}}
    (folder / "metrics.jsonl").write_text(2 * (json.dumps(line) + "\n"))
    return folder / "metrics.jsonl"


def importing(
    kind: str,
    files: Callable[[], dict[str, bytes | str]],
    damaged: str,
    source: str = "",
    **options: bool,
) -> Reader:
    """An importer whose file `damaged` is damaged; `source` is what is imported."""

    def make(folder: Path) -> Path:
        write(folder, files())
        return folder / damaged

    def read(file: Path) -> None:
        root = Path(str(file)[: -len(damaged) - 1])
        out = root / "out"
        try:
            plan = plan_import(kind, root / source, Options(**options))  # type: ignore[arg-type]
            import_plan(plan, out / "p", "p", size=8)
            read_pack(out / "p" / "pack.json")
        finally:
            left = [path.name for path in out.iterdir()] if out.is_dir() else []
            assert left in ([], ["p"]), f"{left} was left half written"

    return Reader(make, read)


def cub() -> dict[str, bytes | str]:
    images = {f"{c}/{n}.jpg": png(60 * c + 9 * n) for c in (1, 2) for n in (1, 2)}
    ids = list(enumerate(images, 1))
    return {
        **{f"images/{name}": data for name, data in images.items()},
        "images.txt": "".join(f"{k} {name}\n" for k, name in ids),
        "image_class_labels.txt": "".join(f"{k} {name[0]}\n" for k, name in ids),
        "classes.txt": "1 001.Black_footed_Albatross\n2 002.Laysan_Albatross\n",
        "bounding_boxes.txt": "".join(f"{k} 1.0 1.0 6.0 6.0\n" for k, _ in ids),
    }


def aircraft() -> dict[str, bytes | str]:
    tall = io.BytesIO()
    Image.new("RGB", (20, 40), "blue").save(tall, "JPEG")
    numbers = ["0034309", "0034310", "0034311", "0034312"]
    lines = [f"{n} {'F/A-18' if k < 2 else 'Boeing 717'}\n" for k, n in enumerate(numbers)]
    return {
        **{f"data/images/{n}.jpg": tall.getvalue() for n in numbers},
        "data/images_variant_train.txt": "".join(lines),
        "data/images_box.txt": "".join(f"{n} 1 1 15 15\n" for n in numbers),
    }


def mini() -> dict[str, bytes | str]:
    names = [f"n0153282900000{k}.jpg" for k in range(4)]
    rows = "".join(f"{n},n0153282{9 if k < 2 else 8}\n" for k, n in enumerate(names))
    return {
        **{f"images/{n}": png(50 * k) for k, n in enumerate(names)},
        "train.csv": "filename,label\n" + rows,
    }


def quickdraw() -> dict[str, bytes | str]:
    drawing = {
        "word": "cat",
        "recognized": True,
        "drawing": [[[0, 50, 255], [0, 9, 255]], [[3], [4]]],
    }
    return {
        f"simplified/{name}.ndjson": 2 * (json.dumps(drawing) + "\n") for name in ("cat", "dog")
    }


def bitmaps() -> dict[str, bytes | str]:
    file = io.BytesIO()
    np.save(file, np.arange(2 * 784, dtype=np.uint32).reshape(2, 784).astype(np.uint8))
    return {f"numpy_bitmap/{name}.npy": file.getvalue() for name in ("cat", "dog")}


def necessities() -> dict[str, bytes | str]:
    names = [f"Necessities/{brand}/{n}.jpg" for brand in ("Acme", "Zeta") for n in (1, 2)]
    return {
        **{name: png(40 * k) for k, name in enumerate(names)},
        "train_images_root.txt": "".join(f"{name} {k}\n" for k, name in enumerate(names)),
    }


def pets() -> dict[str, bytes | str]:
    return {f"{c}/{n}.png": png(90 * n + len(c)) for c in ("cat", "horse") for n in (1, 2)}


def archive(form: str) -> dict[str, bytes | str]:
    file = io.BytesIO()
    if form == "zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as z:
            for name, data in pets().items():
                z.writestr(name, data)
    else:
        with tarfile.open(fileobj=file, mode="w:gz" if form == "tgz" else "w") as t:
            for name, data in pets().items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                t.addfile(info, io.BytesIO(data if isinstance(data, bytes) else data.encode()))
    return {f"pets.{form}": file.getvalue()}


def arrays() -> dict[str, bytes | str]:
    file = io.BytesIO()
    images = np.arange(4 * 64, dtype=np.uint32).reshape(4, 8, 8).astype(np.uint8)
    np.savez(file, images=images, labels=np.array([0, 0, 1, 1]), names=np.array(["a", "b"]))
    return {"x.npz": file.getvalue()}


READERS: dict[str, Reader] = {
    "pack-json": Reader(lambda f: a_pack(f, "pack.json"), read_pack),
    "pack-images": Reader(lambda f: a_pack(f, "images.npy"), read_pack),
    "config-toml": Reader(a_config, load_config),
    "benchmark-toml": Reader(a_benchmark, lambda file: load_benchmark(str(file)).scaled(0.5)),
    "grid-toml": Reader(a_grid, lambda file: load_grid(file).cells()),
    "grid-json": Reader(a_saved_grid, lambda file: saved_grid(file.parent).cells()),
    "manifest": Reader(a_manifest, read_manifest),
    "checkpoint-json": Reader(
        lambda f: a_checkpoint(f, "state.json"), lambda file: load_checkpoint(file.parent)
    ),
    "checkpoint-tensors": Reader(
        lambda f: a_checkpoint(f, "tensors.safetensors"), lambda file: load_checkpoint(file.parent)
    ),
    "metrics-line": Reader(a_metrics_line, read_last_line),
    "cub-images": importing("cub", cub, "images.txt"),
    "cub-labels": importing("cub", cub, "image_class_labels.txt"),
    "cub-classes": importing("cub", cub, "classes.txt"),
    "cub-boxes": importing("cub", cub, "bounding_boxes.txt", crop_to_box=True),
    "aircraft-variants": importing("aircraft", aircraft, "data/images_variant_train.txt"),
    "aircraft-boxes": importing("aircraft", aircraft, "data/images_box.txt", crop_to_box=True),
    "miniimagenet-csv": importing("miniimagenet", mini, "train.csv"),
    "quickdraw-ndjson": importing("quickdraw", quickdraw, "simplified/cat.ndjson"),
    "quickdraw-npy": importing("quickdraw", bitmaps, "numpy_bitmap/cat.npy"),
    "necessities-list": importing(
        "necessities", necessities, "train_images_root.txt", "train_images_root.txt"
    ),
    "folder-image": importing("folder", pets, "cat/1.png"),
    "folder-zip": importing("folder", lambda: archive("zip"), "pets.zip", "pets.zip"),
    "folder-tar": importing("folder", lambda: archive("tar"), "pets.tar", "pets.tar"),
    "folder-tgz": importing("folder", lambda: archive("tgz"), "pets.tgz", "pets.tgz"),
    "npz": importing("npz", arrays, "x.npz", "x.npz"),
}
