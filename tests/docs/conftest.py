"""The pages of the documentation, cut into their code blocks.

A page says in HTML comments what its readers need not see:

- `<!-- run first: CODE -->` is Python that runs before what follows it;
- `<!-- file: NAME -->` before a block: the block is also written to that file;
- `<!-- runs -->` before a bash block: it is run for real.
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [name for name in TOP if (ROOT / name).exists()]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))
PIECE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$"
    r"|<!-- (?P<word>runs|run first:|file:)(?P<rest>.*?)-->",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """One code block; `line` is the page's line before its first."""

    language: str
    text: str
    line: int
    runs: bool = False
    file: str | None = None
    output: str | None = None
    hidden: bool = False


def blocks_of(text):
    """The blocks of a page in order; a text block right after one that runs is its output."""
    blocks, runs, file, end = [], False, None, -1
    for found in PIECE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["word"] == "runs":
            runs = True
        elif found["word"] == "file:":
            file = found["rest"].strip()
        elif found["word"]:
            code = textwrap.dedent(found["rest"]).strip() + "\n"
            blocks.append(Block("python", code, line, hidden=True))
        else:
            code = textwrap.dedent(found["text"])
            last = blocks[-1] if blocks else None
            close = last and text[end : found.start()].strip() == ""
            if found["language"] == "text" and close and (last.runs or last.language == "python"):
                blocks[-1] = Block(last.language, last.text, last.line, last.runs, output=code)
            blocks.append(Block(found["language"], code, line, runs, file))
            runs, file, end = False, None, found.end()
    return blocks


@pytest.fixture(params=PAGES)
def page(request):
    """The path of a page from the root, once for each."""
    return request.param


@pytest.fixture
def blocks(page):
    return blocks_of((ROOT / page).read_text(encoding="utf-8"))
