"""What `metadrift classify` reaches on unseen classes, through the command line alone.

    python benchmarks/classify_packs.py --run RUN --data FOLDER_OF_PACKS

For every pack, folders of PNG files are written from classes that no training has seen: `ways`
classes, `shots` support and `queries` query pictures each, `tasks` times. Each is given to the
installed command, once with its default (each query on its own) and once with `--together`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tyro
from PIL import Image

from metadrift.data.pack import Pack, Split, open_pack

COMMAND = Path(sys.executable).parent / "metadrift"


def main(
    run: Path,
    data: Path,
    packs: tuple[str, ...] = (),
    ways: int = 5,
    shots: int = 5,
    queries: int = 10,
    tasks: int = 10,
    split: Split = "test",
    seed: int = 0,
) -> None:
    """Print a table row for each pack.

    Parameters
    ----------
    run
        The folder of a trained run.
    data
        A folder of packs.
    packs
        Some of them by name; without it all. Two names for the same images count once.
    ways, shots, queries
        The shape of each question.
    tasks
        Questions a pack.
    split
        Which classes; a run has never seen those of val and test.
    seed
        Other pictures.
    """
    found = [open_pack(file.parent) for file in sorted(data.glob("*/pack.json"))]
    unique = {pack.sha256: pack for pack in found if not packs or pack.name in packs}
    print(f"{ways}-way {shots}-shot, {tasks} x {ways * queries} pictures of {split} classes\n")
    print("| domain | one by one % | together % |\n|---|---|---|")
    means = []
    for pack in unique.values():
        rows = [
            question(run, pack, split, ways, shots, queries, np.random.default_rng([seed, task]))
            for task in range(tasks)
        ]
        each = 100 * np.array(rows)
        means.append(each.mean(0))
        cells = [f"{m:.1f}" for m in means[-1]]
        if tasks > 1:
            half = 1.96 * each.std(0, ddof=1) / np.sqrt(tasks)
            cells = [f"{cell} ± {h:.1f}" for cell, h in zip(cells, half, strict=True)]
        print(f"| {pack.name} | {' | '.join(cells)} |", flush=True)
    alone, together = np.mean(means, axis=0)
    print(f"| mean | {alone:.1f} | {together:.1f} |")


def question(
    run: Path,
    pack: Pack,
    split: Split,
    ways: int,
    shots: int,
    queries: int,
    rng: np.random.Generator,
) -> list[float]:
    """The accuracy of one question, one by one and together."""
    enough = [c for c in pack.classes(split) if pack.class_size(c) >= shots + queries]
    with tempfile.TemporaryDirectory() as folder:
        for c in rng.choice(enough, ways, replace=False):
            rows = pack.class_offsets[c] + rng.permutation(pack.class_size(c))[: shots + queries]
            for n, row in enumerate(rows):
                part = "support" if n < shots else "query"
                home = Path(folder, part, f"class {c}")
                home.mkdir(parents=True, exist_ok=True)
                image = np.asarray(pack.images[row])
                Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(
                    home / f"{n}.png"
                )
        words = [COMMAND, "classify", "--run", run, "--json"]
        words += ["--support", Path(folder, "support"), "--query", Path(folder, "query")]
        accuracies = []
        for more in ([], ["--together"]):
            done = subprocess.run([*words, *more], capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            accuracies.append(float(json.loads(done.stdout)["accuracy"]))
        return accuracies


if __name__ == "__main__":
    tyro.cli(main)
