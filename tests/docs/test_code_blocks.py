"""What README and docs show must run, or at least be understood by what it is said to."""

import argparse
import contextlib
import functools
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tyro

from metadrift.cli import main
from metadrift.experiments.grid import parse_grid
from metadrift.runs.config import from_table
from metadrift.streams import load_benchmark
from page_blocks import DRIVER, smaller, steps_of

ROOT = Path(__file__).parents[2]
LANGUAGES = {"python", "bash", "toml", "json", "text"}
OTHER_PROGRAMS = {"cat", "cd", "done", "for", "git", "grep", "mkdir", "pip", "ray", "sed"}
OTHER_PROGRAMS |= {"tensorboard", "unzip"}


def test_every_block_says_its_language(page, blocks):
    wrong = [b.line for b in blocks if b.language not in LANGUAGES]
    assert not wrong, f"{page}, lines {wrong}: tag the blocks with one of {sorted(LANGUAGES)}"


def test_the_blocks_of_a_page_run_in_order(page, blocks, tmp_path):
    steps = steps_of(blocks)
    if not any(b.language in ("python", "bash") and not b.hidden for b in steps):
        pytest.skip("nothing to run on this page")
    words = [(b.file or b.language, b.text, b.line, page) for b in steps]
    for old, new in smaller((ROOT / page).read_text(encoding="utf-8")):
        assert any(old in text for _, text, _, _ in words), f"{page}: no block has {old}"
        words = [(kind, text.replace(old, new), *rest) for kind, text, *rest in words]
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "METADRIFT_DATA": str(tmp_path / "data"),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(words),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=env,
        timeout=1200,
    )
    assert done.returncode == 0, f"{page}: {done.stdout}\n{done.stderr}"
    for block, said in zip(steps, done.stdout.split("\x1e")[1:], strict=True):
        if block.output is not None:
            where = f"{page}, line {block.line}"
            assert without_numbers(said) == without_numbers(block.output), f"{where}:\n{said}"


def without_numbers(text):
    """What of an output is the same on any machine: its words, not its numbers or its layout."""
    return re.sub(
        r"((?<= )[-+])?\d+(\.\d+)?", "0", re.sub(r"[\s─━│┃┏┓└┘├┤┡┩╇┴┬┼╋┳]+", " ", text)
    ).strip()


def test_every_command_is_accepted_by_its_own_parser(page, blocks):
    for block in blocks:
        for words in commands_of(block.text) if block.language == "bash" else []:
            check(words, f"{page}, after line {block.line}: {shlex.join(words)}")


def commands_of(text):
    """The simple commands of a shell text, without settings of the environment before them."""
    for line in re.sub(r"> *[\w./]+", "", text.replace("\\\n", " ")).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = []
        for word in [*lexer, ";"]:
            if set(word) <= set(";&|()<>"):
                if words:
                    yield words
                words = []
            elif words or not (re.match(r"\w+=", word) or word in ("do", "then")):
                words.append(word)


def check(words, where):
    print(where)  # shown when what follows fails
    program = Path(words[0]).name
    if program in ("python", "python3", "torchrun") and "metadrift" in words:
        words, program = words[words.index("metadrift") :], "metadrift"
    if program == "metadrift":
        if words[1:] not in (["--help"], ["--version"]):
            with parse_only():
                main([*words[1:], "--debug"])
    elif program in ("python", "python3") and (script := script_of(words[1])):
        source = script.read_text(encoding="utf-8")
        if "tyro.cli(" not in source and "parse_args" not in source:
            assert not words[2:], f"{where}: the script takes no arguments"
            return
        with parse_only(str(script), *words[2:]):
            whole = script.parent if script.name == "__main__.py" else script
            runpy.run_path(str(whole), run_name="__main__")
    elif program == "make":
        for target in words[1:]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), where
    elif program in ("python", "python3"):
        assert words[1] == "-m", where
    else:
        assert program in OTHER_PROGRAMS, f"{where}: the suite does not know {program}"


def script_of(name):
    """The file of benchmarks/X.py, named from any folder, or of a folder that is a program."""
    path = ROOT.joinpath(*Path(name).parts[-2:])
    program = path / "__main__.py"
    return path if path.suffix == ".py" else program if program.is_file() else None


class ParsedError(BaseException):
    """The arguments were read; what would happen with them does not."""


@contextlib.contextmanager
def parse_only(*argv):
    """A context in which a command reads its arguments for real and then stops."""
    read, read_plainly = tyro.cli, argparse.ArgumentParser.parse_args

    def cli(kind, **more):
        if not isinstance(kind, type):
            kind = functools.wraps(kind)(lambda *_, **__: None)
        read(kind, **more)
        raise ParsedError

    def parse_args(self, *words, **more):
        read_plainly(self, *words, **more)
        raise ParsedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", list(argv))
        patch.setattr(tyro, "cli", cli)
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
        patch.syspath_prepend(ROOT / "benchmarks")
        with pytest.raises(ParsedError):
            yield


def test_toml_is_read_by_what_it_is_for(page, blocks, tmp_path):
    for block in blocks:
        if block.language != "toml":
            continue
        table, where = tomllib.loads(block.text), f"{page}, line {block.line}"
        if "variants" in table:
            assert parse_grid(table, where, "a title").cells()
        elif "segments" in table:
            (tmp_path / "benchmark.toml").write_text(block.text, encoding="utf-8")
            assert load_benchmark(str(tmp_path / "benchmark.toml")).steps > 0
        else:
            from_table(table, where)


def test_json_is_json(blocks):
    for block in blocks:
        for line in block.text.splitlines() if block.language == "json" else []:
            json.loads(line)
