"""The command line: find the command, call it, print errors as sentences.

This module holds only the table. A command is a module of `metadrift.commands` with a function
`main`. It is imported when it is called, so that `metadrift --help` is quick.
"""

from __future__ import annotations

import importlib
import io
import os
import sys

from metadrift import __version__
from metadrift.errors import LostProcessError, MetadriftError, UsageError
from metadrift.storage.terminal import printable

COMMANDS = {
    "demo": "a small comparison on the built-in domains, with its report",
    "run": "train one method on one benchmark and score it",
    "resume": "continue a run that was stopped",
    "compare": "run methods, learners, shots and seeds and compare them",
    "paper list": "the paper's experiments and what they cost",
    "paper": "run one, with the paper's numbers beside ours",
    "report": "one HTML page of a run or a comparison",
    "watch": "follow runs and comparisons in the terminal",
    "classify": "classify new pictures from a few examples per class, with a run's learner",
    "export": "the embedding network of a run as an ONNX file",
    "detect": "the change detector alone, on any stream of vectors",
    "data list": "the packs in the data folder",
    "data download": "fetch a dataset from where it is published",
    "data import": "make a pack from a dataset",
    "data verify": "compare packs with their sha256",
    "data preview": "a PNG sheet of a pack's images",
    "data generate": "make the six built-in domains",
    "data difficulty": "nearest-centroid accuracy of packs",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong use."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us; nobody listens
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name may hold bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    program = "metadrift"
    try:
        if not words or words[0] in ("-h", "--help"):
            print(_overview(), flush=True)
            return 0
        if words[0] == "--version":
            print(f"metadrift {__version__}", flush=True)
            return 0
        name, rest = _find(words)
        program = f"metadrift {name}"
        from metadrift import registry  # in here, because Ctrl-C may come while it loads

        registry.allow(*rest)  # only code named on the command line may be loaded
        command = importlib.import_module(f"metadrift.commands.{name.replace(' ', '_')}")
        code: int = command.main(rest)
        return code
    except MetadriftError as error:
        if debug:
            raise
        if error.shared and os.environ.get("RANK", "0") != "0":  # set by torchrun
            return error.exit_code
        said = "\n".join(map(printable, str(error).splitlines()))
        print(f"{program}: {said}", file=sys.stderr)
        if isinstance(error, LostProcessError):
            sys.stderr.flush()
            os._exit(error.exit_code)  # closing the connections in order would take long
        return error.exit_code
    except UnicodeEncodeError as error:
        if debug:
            raise
        part = error.object[max(error.start - 40, 0) : error.end + 40]
        print(f"{program}: a name is not UTF-8 text, near {part!r}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{program}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except OSError as error:
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"{program}: {printable(f'{where}{error.strerror or error}')}", file=sys.stderr)
        return 1
    except Exception as error:
        from metadrift import registry

        why = " ".join(str(error).splitlines()[:1])
        place, lacks_memory = registry.place_in_loaded(error), _lacks_memory(error)
        if debug or not (lacks_memory or place):
            raise
        said = f"there is not enough memory for this. {why}"
        if not lacks_memory:
            said = f"{type(error).__name__}: {why}, in {place} (--debug shows all)"
        print(f"{program}: {printable(said)}", file=sys.stderr)
        return 1


def _lacks_memory(error: Exception) -> bool:
    """True also for torch, which says it as a RuntimeError."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or "allocate memory" in said or "out of memory" in said


def _find(words: list[str]) -> tuple[str, list[str]]:
    """The command's name and the words after it."""
    for length in (2, 1):
        if " ".join(words[:length]) in COMMANDS:
            return " ".join(words[:length]), words[length:]
    from metadrift.storage.tables import did_you_mean

    family = [name.split()[1] for name in COMMANDS if name.split()[0] == words[0]]
    if family:
        hint = did_you_mean(words[1], family) if len(words) > 1 else ""
        raise UsageError(f"{words[0]} needs one of: {', '.join(family)}{hint}")
    known = [*COMMANDS, *(name.split()[0] for name in COMMANDS)]
    hint = did_you_mean(words[0], known) or "; `metadrift --help` lists them"
    raise UsageError(f"there is no command {words[0]!r}{hint}")


def _overview() -> str:
    width = max(map(len, COMMANDS)) + 2
    return "\n".join(
        [
            "metadrift: few-shot meta-learning on a stream of tasks whose domain drifts",
            "",
            "commands:",
            *(f"  {name:<{width}}{what}" for name, what in COMMANDS.items()),
            "",
            "`metadrift COMMAND --help` explains one. --debug shows where an error came from.",
        ]
    )
