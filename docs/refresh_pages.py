"""Run the code blocks of pages as they stand and write what they print into the pages.

python docs/refresh_pages.py README.md docs/tutorial.md

A page's blocks run in order in an empty folder. Pictures that a page shows from `docs/images/NAME`
are taken from that folder if a block made a file `figures/NAME`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import tyro

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from page_blocks import DRIVER, blocks_of, steps_of  # noqa: E402


def main(pages: Annotated[tuple[Path, ...], tyro.conf.Positional]) -> None:
    """Write the outputs of every block anew."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            text = refreshed(text, str(page), Path(folder))
            for name in re.findall(r"\]\(\S*images/([\w.-]+)\)", text):
                made = Path(folder) / "figures" / name
                if made.is_file():
                    shutil.copyfile(made, ROOT / "docs" / "images" / name)
                    print(f"{page}: new picture {name}")
        page.write_text(text, encoding="utf-8")
        print(f"{page}: written")


def refreshed(text: str, page: str, folder: Path) -> str:
    """The page with what its blocks print now."""
    blocks = blocks_of(text)
    steps = steps_of(blocks)
    words = [(b.file or b.language, b.text, b.line, page) for b in steps]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(words),
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    if done.returncode:
        raise SystemExit(f"{page}: a block failed, the page stays as it is\n{done.stdout}")
    said = dict(zip((b.line for b in steps), done.stdout.split("\x1e")[1:], strict=True))
    for block, output in reversed(list(pairwise(blocks))):
        if block.output is not None:
            start, end = output.span
            lines = [line.rstrip() for line in said[block.line].strip("\n").splitlines()]
            text = text[:start] + "\n".join(lines) + "\n" + text[end:]
    return text


if __name__ == "__main__":
    tyro.cli(main)
