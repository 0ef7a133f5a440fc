"""Mutation testing finds what tests do not notice, and leaves the tree alone."""

import ast
import doctest
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import mutants
import mutations
from mutations import changes_of

BENCHMARKS = Path(mutations.__file__).parent
CODE = """
def grown(x):
    if x > 9:
        return x
    if x < 3:
        x += 1
    return x
"""
TEST = """
from metadrift.evaluation.code import grown

def test_it_grows():
    assert [grown(x) for x in (1, 2, 3, 5, 11)] == [2, 3, 3, 5, 11]
"""


def test_the_example_of_the_mutations_holds():
    failed, tried = doctest.testmod(mutations)
    assert tried
    assert not failed


@pytest.mark.slow
@pytest.mark.parametrize("room", ["detection", "memory", "runs"])
def test_every_change_is_one_change_of_valid_python(room):
    for file in (BENCHMARKS.parent / "src" / "metadrift" / room).glob("*.py"):
        source = file.read_text(encoding="utf-8")
        tree = ast.dump(ast.parse(source))
        for change in changes_of(source):
            assert ast.dump(ast.parse(change.apply(source))) != tree, change
            assert source.encode()[change.start : change.end].decode() == change.before


def test_the_tests_that_each_room_is_held_by_exist():
    named = [mutants.EVERY, *mutants.ROOMS.values(), *mutants.MORE.values()]
    for path in [*mutants.MORE, *(path for paths in named for path in paths)]:
        assert (BENCHMARKS.parent / path).exists(), path


def test_what_is_not_code_is_left_alone():
    source = '''
"""1 + 1"""
from typing import TYPE_CHECKING, Literal
if TYPE_CHECKING:
    import x
Kind = Literal[1, 2]
def f(n: Literal[3] | None) -> Literal[4]:
    """2 + 2"""
    assert n == 5, "never"
    for _ in zip(n, n, strict=True):
        raise ValueError(f"{n + 6} is not {n * 7}")
'''
    assert [(change.kind, change.before[:5]) for change in changes_of(source)] == [
        ("drop", "raise")
    ]


@pytest.mark.slow
def test_killed_and_surviving_mutants_are_told_apart_and_kept(tmp_path):
    root, out = tmp_path / "root", tmp_path / "out.jsonl"
    files = {
        "src/metadrift/__init__.py": "",
        "src/metadrift/evaluation/__init__.py": "",
        "src/metadrift/evaluation/code.py": CODE,
        "tests/evaluation/test_code.py": TEST,
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=root, check=True)
    words = ["--root", root, "--rooms", "evaluation", "--workers", "2", "--out", out]
    command = [sys.executable, BENCHMARKS / "mutants.py", *words]
    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    survivors = {line for line in first.splitlines() if line.startswith("survived:")}
    where = "survived: src/metadrift/evaluation/code.py:3"
    assert survivors == {f"{where} compare: x > 9 -> (x >= 9)", f"{where} constant: 9 -> 10"}
    assert "5 of    7 killed" in first
    assert (root / "src/metadrift/evaluation/code.py").read_text() == CODE
    lines = out.read_text()
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert survivors <= set(again.splitlines())
    assert out.read_text() == lines  # nothing was tested twice
