"""On a terminal (a real one: a pseudo-terminal) and into a pipe."""

import os
import pty
import subprocess
import sys

import pytest

BAR = """
import metadrift.storage.progress as progress
progress.SECONDS_BETWEEN_LINES = 0.0
with progress.Bar("reading [/b]\\x1b[31mx", 8, "images") as bar:
    for _ in range(4):
        bar.advance(1)
    bar.say("kept: [red]")
    bar.begin("fetching", None, "bytes")
    bar.update(3_000_000, total=9_000_000)
"""
BOARD = """
from metadrift.storage.progress import Board
board = Board(("run", "step"), right=("step",))
board.show([["[/b]\\x1b[31mx", "3"]], "[/i] title", lambda due: ["x is at step 3"])
board.close()
board.say("1 run: 1 done")
"""


def on_a_terminal(code):
    """What the program wrote to its terminal."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=theirs, stdout=theirs, env=environment
    )
    os.close(theirs)
    said = b""
    try:
        while block := os.read(ours, 4096):
            said += block
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0, said
    return said.decode()


def in_a_pipe(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_a_bar_on_a_terminal_shows_the_time_left_and_names_as_they_are():
    said = on_a_terminal(BAR)
    assert "reading [/b]?[31mx" in said
    assert "4 of 8 images" in said
    assert "left" in said
    assert "kept: [red]" in said
    assert "3.0 of 9.0 MB" in said


def test_elsewhere_a_bar_is_lines_with_the_time_left():
    lines = in_a_pipe(BAR)
    assert lines[1].startswith("reading [/b]?[31mx: 2 of 8 images, ")
    assert lines[1].endswith(" s left")
    assert lines[4] == "kept: [red]"
    assert lines[5].startswith("fetching: 3.0 of 9.0 MB, ")


def test_a_table_on_a_terminal_shows_names_as_they_are():
    said = on_a_terminal(BOARD)
    assert "[/b]?[31mx" in said
    assert "[/i] title" in said


def test_elsewhere_a_table_is_lines():
    assert in_a_pipe(BOARD) == ["x is at step 3", "1 run: 1 done"]


@pytest.mark.parametrize("made", ["Bar('x', 3, 'y', quiet=True).update(3)", BOARD])
def test_quiet_shows_nothing(made):
    code = made.replace('right=("step",)', "quiet=True")
    assert in_a_pipe(f"from metadrift.storage.progress import Bar, Board\n{code}") == []
