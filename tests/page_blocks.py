"""The pages of the documentation, cut into their code blocks.

A page says in HTML comments what its readers need not see:

- `<!-- run first: CODE -->` is Python that runs before what follows it;
- `<!-- file: NAME -->` before a block: the block is also written to that file;
- `<!-- runs -->` before a bash block: it is run for real;
- `<!-- smaller in tests: OLD as NEW; ... -->`: tests run the page with these words replaced.
  `docs/refresh_pages.py` runs it as it stands and writes the outputs anew.
"""

import re
import textwrap
from dataclasses import dataclass, replace

PIECE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$"
    r"|<!-- (?P<word>runs|run first:|file:)(?P<rest>.*?)-->",
    re.DOTALL | re.MULTILINE,
)
SMALLER = re.compile(r"<!-- smaller in tests:(.*?)-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One code block; `line` is the page's line before its first, `span` where its text stands."""

    language: str
    text: str
    line: int
    runs: bool = False
    file: str | None = None
    output: str | None = None
    hidden: bool = False
    span: tuple[int, int] = (0, 0)


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
                blocks[-1] = replace(last, output=code)
            span = found.span("text")
            blocks.append(Block(found["language"], code, line, runs, file, span=span))
            runs, file, end = False, None, found.end()
    return blocks


def steps_of(blocks):
    """The blocks that are run or written to a file, in order."""
    wanted = [b for b in blocks if b.file or b.language == "python" or b.runs]
    return [b for b in wanted if b.language != "text"]


def smaller(page):
    """What tests replace in the blocks of a page, as pairs."""
    found = SMALLER.search(page)
    pairs = found[1].split(";") if found else []
    return [tuple(part.strip() for part in pair.split(" as ")) for pair in pairs]


# Runs the steps of a page in one process, in order, with a mark before the output of each.
DRIVER = r"""
import json, pathlib, subprocess, sys
names = {"__name__": "__main__"}
for kind, text, line, page in json.load(sys.stdin):
    print("\x1e", end="", flush=True)
    if kind == "bash":
        subprocess.run(["bash", "-euc", text], check=True, stdin=subprocess.DEVNULL)
    elif kind == "python":
        exec(compile("\n" * line + text, page, "exec"), names)
    else:
        pathlib.Path(kind).write_text(text)
    sys.stdout.flush()
"""
