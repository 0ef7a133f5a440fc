"""The --help of commands with many settings: examples and the settings that people change."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH, _LEFT = 79, 15  # columns in all, and before the texts


@dataclass(frozen=True)
class ShortHelp:
    """What --help shows; --help-all lists every setting.

    Parameters
    ----------
    examples
        A command's arguments, and what they do.
    settings
        Names of fields of the command's dataclass or of its `run`, with spaces between them.
    """

    examples: Sequence[tuple[str, str]]
    settings: str

    def text(self, arguments: Any, command: str) -> str:
        """The help, with the defaults of `arguments`, an instance of the command's dataclass."""
        about = inspect.cleandoc(type(arguments).__doc__ or "")
        lines = [f"usage: metadrift {command} [OPTIONS]", "", about, "", "examples:"]
        for words, what in self.examples:
            lines += [f"  # {what}", f"  metadrift {command} {words}"]
        lines += ["", "settings that people change most:"]
        for name in self.settings.split():
            home = arguments if hasattr(arguments, name) else arguments.run
            text = textwrap.wrap(_about(home, name), _WIDTH - _LEFT)
            lines.append(f"  --{name.replace('_', '-'):<{_LEFT - 4}}{text[0]}")
            lines += [" " * _LEFT + line for line in text[1:]]
        return "\n".join([*lines, "", f"`metadrift {command} --help-all` lists every setting."])


def field_texts(kind: type) -> dict[str, str]:
    """The text below each field of a dataclass and of its bases.

    Examples
    --------
    >>> field_texts(ShortHelp)
    {}
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(tree, ast.ClassDef)
        for field, after in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                value = after.value if isinstance(after, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found[field.target.id] = " ".join(value.value.split())
    return found


def _about(arguments: Any, name: str) -> str:
    """What a setting is, its choices if it has some, and its default."""
    text, value = field_texts(type(arguments))[name], getattr(arguments, name)
    kind = typing.get_type_hints(type(arguments))[name]
    kind = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
    if typing.get_origin(kind) is typing.Literal:
        text += f" One of {', '.join(map(str, typing.get_args(kind)))}."
    if value is None:
        return text
    shown = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"{text} (default: {shown})"
