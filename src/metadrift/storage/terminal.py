"""Tables and names on the terminal: no name acts as markup or as a terminal's control code."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH_OF_A_FILE = 500


def printable(text: str) -> str:
    """A text without terminal control codes.

    Examples
    --------
    >>> printable("a name" + chr(27) + "[31m")
    'a name?[31m'
    """
    return "".join(c if c.isprintable() else "?" for c in text)


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    right: Collection[str] = (),
    last: Sequence[str] = (),
) -> None:
    """Print a table to stdout; in a file or a pipe it is never cut, however wide.

    Examples
    --------
    >>> print_table(["domain", "steps"], [["[b]glyphs", "3"]], right=["steps"])
    ┏━━━━━━━━━━━┳━━━━━━━┓
    ┃ domain    ┃ steps ┃
    ┡━━━━━━━━━━━╇━━━━━━━┩
    │ [b]glyphs │     3 │
    └───────────┴───────┘
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    Console(file=sys.stdout, width=width).print(text_table(columns, rows, title, right, last))


def text_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    right: Collection[str] = (),
    last: Sequence[str] = (),
) -> Table:
    """The table itself, for a live display.

    `right` names the columns of numbers. A heading may have several lines. The row `last` stands
    below a line.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(printable(title)) if title else None)
    for column in columns:
        table.add_column(
            Text("\n".join(map(printable, column.splitlines()))),
            justify="right" if column in right else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    if last:
        table.add_section()
        table.add_row(*(Text(printable(cell)) for cell in last))
    return table
