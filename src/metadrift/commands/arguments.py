"""Reading a command's words, by tyro, with a hint for a value that is nearly right."""

from __future__ import annotations

import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import partial, wraps
from io import StringIO
from typing import Annotated, Any, TypeVar

import tyro

from metadrift import registry
from metadrift.commands.short_help import ShortHelp
from metadrift.errors import UsageError
from metadrift.runs.config import SHORT, STREAMS
from metadrift.storage.tables import did_you_mean
from metadrift.storage.terminal import printable

T = TypeVar("T")

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""An option without a value, and without a `--no-` form."""


def call(function: Callable[..., int], command: str, words: list[str]) -> int:
    """Call a function with the words as its arguments; its docstring is the --help."""

    @wraps(function)
    def prepare(*arguments: Any, **options: Any) -> Callable[[], int]:
        return partial(function, *arguments, **options)

    return parse(prepare, command, words)()


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Tell the package's warnings as notes, without a line of code."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in told:
        print(printable(f"note: {warning.message}"), file=sys.stderr)


def known_names() -> str:
    """The names of parts, those of installed packages with them, by the option that takes them."""
    lists = {
        "method": (*registry.names("methods"), *STREAMS),
        "learner": registry.names("learners"),
        "backbone": registry.names("backbones"),
        "detector": registry.names("detectors"),
        "features": ("auto", *registry.names("features")),
        "memory": registry.names("memories"),
        "sampler": registry.names("samplers"),
    }
    lines = ["", "names of parts, or code of yours as package.module:Name or file.py:Name:"]
    for option, names in lists.items():
        text = textwrap.wrap(", ".join(names), 64, break_on_hyphens=False)
        lines += [f"  --{option:<11}{text[0]}", *(" " * 15 + line for line in text[1:])]
    return "\n".join(lines)


def in_full(words: Sequence[str]) -> list[str]:
    """The words with the long form of options that name a part.

    Examples
    --------
    >>> in_full(["--sampler", "uniform", "--memory=reservoir", "--seed", "1"])
    ['--replay.sampler', 'uniform', '--memory.rule=reservoir', '--seed', '1']
    """
    long = {f"--{short}": f"--{group}.{name}" for short, (group, name) in SHORT.items()}
    split = [word.partition("=") for word in words]
    return [long.get(option, option) + sign + value for option, sign, value in split]


def value_of(option: str, words: Sequence[str]) -> str | None:
    """The value that the words give an option; None if they do not name it.

    Examples
    --------
    >>> value_of("--seed", ["--seed", "1"]), value_of("--seed", ["--seed=1"]), value_of("--out", [])
    ('1', '1', None)
    """
    for place, word in enumerate(words):
        if word == option and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return None


def parse(
    kind: Callable[..., T],
    command: str,
    words: list[str],
    default: T | None = None,
    after_help: str = "",
    short_help: ShortHelp | None = None,
) -> T:
    """A dataclass from the words; what they leave out is as in `default`.

    With `short_help`, --help shows that, and --help-all shows every option. `after_help` follows
    either.
    """
    _refuse_other_than_code(words)
    if short_help is not None:
        if {"-h", "--help"} & set(words):
            print(short_help.text(kind() if default is None else default, command))
            print(after_help)
            raise SystemExit(0)
        words = ["--help" if word == "--help-all" else word for word in words]
    said = StringIO()
    options = {} if default is None else {"default": default}
    try:
        with redirect_stderr(said):
            return tyro.cli(kind, prog=f"metadrift {command}", args=words, **options)  # type: ignore[call-overload,no-any-return]
    finally:
        if after_help and {"-h", "--help"} & set(words):
            print(after_help)
        sys.stderr.write(said.getvalue())
        hint = _near_choice(said.getvalue())
        if hint:
            print(f"metadrift {command}: {hint}", file=sys.stderr)


def _refuse_other_than_code(words: Sequence[str]) -> None:
    """Refuse a word after --plugin that names no class."""
    option = ""
    for word in words:
        if word.startswith("-"):
            option, _, word = word.partition("=")
        if option == "--plugin" and word and not registry.is_reference(word):
            raise UsageError(f"--plugin takes file.py:Name or package.module:Name, not {word!r}")


def _near_choice(said: str) -> str:
    """What the mistyped value of tyro's message may have meant."""
    text = re.sub(r"[\s│]+", " ", said)  # the message stands in a box
    found = re.search(r"invalid choice '([^']*)'.*?Expected one of \(([^)]*)\)", text)
    if found is None:
        return ""
    return did_you_mean(found[1], re.findall(r"'([^']*)'", found[2])).removeprefix("; ")
