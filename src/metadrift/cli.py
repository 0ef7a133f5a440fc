"""The command line: find the command, let tyro read its arguments, print errors as sentences.

A command lives in the room it belongs to; here is only the table. Modules are imported when their
command is called, so that `metadrift --help` is quick.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metadrift import __version__
from metadrift.errors import MetadriftError

# command: (module, function, what it does)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("metadrift.commands.demo", "demo", "the main job, on the built-in domains"),
    "run": ("metadrift.commands.run", "run", "train one method on one benchmark and score it"),
    "resume": ("metadrift.commands.run", "resume", "go on with a run that was stopped"),
    "compare": (
        "metadrift.commands.compare",
        "compare",
        "run methods, learners, shots and seeds and compare them",
    ),
    "paper list": (
        "metadrift.commands.paper",
        "list_experiments",
        "the paper's experiments and what they cost",
    ),
    "paper": (
        "metadrift.commands.paper",
        "paper",
        "run one, with the paper's numbers beside ours",
    ),
    "report": ("metadrift.commands.report", "report", "one HTML page of a run or a comparison"),
    "watch": ("metadrift.commands.watch", "watch", "follow a run or a comparison in the terminal"),
    "classify": (
        "metadrift.commands.classify",
        "classify",
        "name new pictures by a few of each class, with a run's learner",
    ),
    "detect": (
        "metadrift.commands.detect",
        "detect_changes",
        "the change detector alone, on any stream of vectors",
    ),
    "data list": ("metadrift.commands.data", "list_packs", "the packs in the data folder"),
    "data download": (
        "metadrift.commands.data_download",
        "download",
        "fetch a dataset from where it is published",
    ),
    "data import": ("metadrift.commands.data", "import_dataset", "make a pack from a dataset"),
    "data verify": (
        "metadrift.commands.data",
        "verify_packs",
        "compare packs with their sha256",
    ),
    "data preview": (
        "metadrift.commands.data",
        "preview_pack",
        "a PNG sheet of a pack's images",
    ),
    "data generate": (
        "metadrift.commands.data_generate",
        "generate",
        "make the six built-in domains",
    ),
    "data difficulty": (
        "metadrift.commands.data_generate",
        "difficulty",
        "nearest-centroid accuracy of packs",
    ),
}
# These give, beside their exit code, the folder whose page is their last act; None leaves it out.
WITH_A_PAGE = ("compare", "paper")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and give its exit code: 0 done, 1 failed, 2 wrong use."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if words[0] == "--version":
        print(f"metadrift {__version__}")
        return 0
    name, rest = _find(words)
    if name is None:
        print(rest[0], file=sys.stderr)
        return 2
    module, function, _ = COMMANDS[name]
    command: Callable[..., Any] = getattr(importlib.import_module(module), function)
    try:
        if name in WITH_A_PAGE:
            return _with_a_page(*command(rest))
        if getattr(command, "reads_words", False):
            return command(rest) or 0
        import tyro

        return tyro.cli(command, prog=f"metadrift {name}", args=rest) or 0
    except MetadriftError as error:
        if debug:
            raise
        print(f"metadrift {name}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"metadrift {name}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def _with_a_page(code: int, folder: Path | None) -> int:
    if folder is not None:
        from metadrift.commands.report import make_report

        page, _ = make_report(folder)
        print(f"report: {page}")
    return code


def _find(words: list[str]) -> tuple[str | None, list[str]]:
    for length in (2, 1):
        if " ".join(words[:length]) in COMMANDS:
            return " ".join(words[:length]), words[length:]
    family = [name for name in COMMANDS if name.split()[0] == words[0]]
    if family:
        known = ", ".join(name.split()[1] for name in family)
        return None, [f"metadrift {words[0]} needs one of: {known}"]
    return None, [f"metadrift has no command {words[0]!r}; `metadrift --help` lists them"]


def _overview() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{what}" for name, (_, _, what) in COMMANDS.items()]
    return "\n".join(
        [
            "metadrift: few-shot meta-learning on a stream of tasks whose domain drifts",
            "",
            "commands:",
            *lines,
            "",
            "`metadrift COMMAND --help` explains one. --debug shows where an error came from.",
        ]
    )
