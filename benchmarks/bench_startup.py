"""Part `startup` of `make bench`: how long one waits before anything happens."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench_table import Row
from metadrift.data.pack import PictureDescription, open_pack
from turns import in_turns, ratio

HELP_S, OPEN_S, PACK_BYTES = 0.5, 0.05, 5_000_000_000


def rows(quick: bool) -> list[Row]:
    commands = {
        "help": ["-m", "metadrift", "--help"],
        "import": ["-c", "import metadrift"],
        "python": ["-c", "pass"],
    }
    works = {
        name: lambda words=words: subprocess.run(
            [sys.executable, *words], check=True, stdout=subprocess.DEVNULL
        )
        for name, words in commands.items()
    }
    seconds = in_turns(works, 3 if quick else 15)
    ms = {name: f"{1000 * statistics.median(each):.0f} ms" for name, each in seconds.items()}
    shown = statistics.median(seconds["help"]) / HELP_S
    opening = _opening()
    return [
        Row("help", f"`metadrift --help` / {HELP_S} s", shown, ms["help"]),
        Row(
            "help, to Python",
            "`metadrift --help` / an empty Python",
            ratio(seconds["help"], seconds["python"]),
            ms["python"],
        ),
        Row(
            "import, to Python",
            "`import metadrift` / an empty Python",
            ratio(seconds["import"], seconds["python"]),
            ms["import"],
        ),
        Row(
            "open a pack",
            f"opening 5 GB / {OPEN_S} s",
            opening / OPEN_S,
            f"{1000 * opening:.2f} ms",
        ),
    ]


def _opening(rounds: int = 9) -> float:
    """Seconds to open a pack of 5 GB, which is a file of holes: only its size counts here."""
    with tempfile.TemporaryDirectory() as folder:
        size = 84
        images = PACK_BYTES // (size * size * 3)
        with open(Path(folder, "images.npy"), "wb") as file:
            shape = {"descr": "|u1", "fortran_order": False, "shape": (images, size, size, 3)}
            np.lib.format.write_array_header_1_0(file, shape)
            file.truncate(file.tell() + images * size * size * 3)
        meta = {
            "format": PictureDescription.FORMAT,
            "name": "holes",
            "image_size": size,
            "channels": 3,
            "class_names": [f"class{c}" for c in range(1000)],
            "class_offsets": np.linspace(0, images, 1001).astype(int).tolist(),
            "class_split": ["train"] * 1000,
            "source": "nothing",
            "licence": "CC0",
            "sha256": "0" * 64,
        }
        Path(folder, "pack.json").write_text(json.dumps(meta))
        spent = []
        for _ in range(rounds):
            begin = time.perf_counter()
            pack = open_pack(Path(folder))
            pack.images[-1].sum()
            spent.append(time.perf_counter() - begin)
        return statistics.median(spent)
