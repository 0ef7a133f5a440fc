"""Make the pictures of the documentation from one finished comparison.

python docs/make_pictures.py COMPARISON [--ours m2d3-pets] [--reference reservoir]

Writes docs/images/: stream.png (true and found domains), detection.png (statistic and threshold),
memory-ours.png and memory-reference.png (composition over time), accuracy.png (by domain). Of a
comparison with several learners or shots, --part names one, such as protonet-5shot.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import tyro

from metadrift.errors import MetadriftError
from metadrift.report.figures import write_figures
from metadrift.report.lines import slug
from metadrift.report.subject import read_subject

IMAGES = Path(__file__).parent / "images"


def main(
    comparison: Annotated[Path, tyro.conf.Positional],
    ours: str = "m2d3-pets",
    reference: str = "reservoir",
    part: str = "",
    out: Path = IMAGES,
) -> None:
    """Draw every chart of the comparison into a temporary folder and keep five."""
    with tempfile.TemporaryDirectory() as folder:
        write_figures(read_subject(comparison), Path(folder))
        home = Path(folder) / part
        traces = sorted(home.glob(f"statistic-{slug(ours)}-seed*.png"))
        wanted = {
            "stream": home / "stream.png",
            "detection": traces[0] if traces else home / f"statistic-{slug(ours)}.png",
            "memory-ours": home / f"memory-{slug(ours)}.png",
            "memory-reference": home / f"memory-{slug(reference)}.png",
            "accuracy": home / "domains.png",
        }
        missing = [file.name for file in wanted.values() if not file.is_file()]
        if missing:
            there = ", ".join(sorted(f.relative_to(folder).as_posix() for f in _png(Path(folder))))
            raise MetadriftError(f"{comparison} has no chart {', '.join(missing)}; it has {there}")
        for name, file in wanted.items():
            shutil.copyfile(file, out / f"{name}.png")
            print(out / f"{name}.png")


def _png(folder: Path) -> list[Path]:
    return list(folder.rglob("*.png"))


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except MetadriftError as error:
        raise SystemExit(f"make_pictures: {error}") from None
