"""Small wrong changes of a Python source, one at a time: what a test suite should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any", "mean": "sum"}


@dataclass(frozen=True)
class Change:
    """Bytes `start` to `end` of the source become `after`."""

    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


def changes_of(source: str) -> list[Change]:
    """Every change of these kinds: compare, arithmetic, boolean, constant, call, slice, drop.

    Left alone: annotations, docstrings, f-strings, what an error says, assertions, and code for
    type checkers only.

    Examples
    --------
    >>> for change in changes_of("y = x[1:] if x < 3 else not x"):
    ...     print(change.kind, change.before, "->", change.after)
    compare x < 3 -> (x <= 3)
    constant 3 -> 4
    slice 1: -> :
    constant 1 -> 2
    boolean not x -> (x)
    """
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )

    found = []
    for node, kind, after in _wrong(ast.parse(source)):
        start, end = place(node)
        before = source.encode()[start:end].decode()
        found.append(Change(node.lineno, kind, start, end, before, after))
    return found


def _wrong(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Node, kind, and the text to put in its place."""
    if isinstance(node, ast.JoinedStr | ast.Assert) or _for_checkers(node):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: an assertion too
        return
    if isinstance(node, ast.stmt) and _can_go(node):
        yield node, "drop", "pass"
    if isinstance(node, ast.Raise):
        return
    if isinstance(node, ast.AugAssign) and type(node.op) in SWAPPED:
        other = copy.copy(node)
        other.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
        yield node, "arithmetic", ast.unparse(other)
    if isinstance(node, ast.expr):
        yield from _expressions(node)
    elif isinstance(node, ast.If) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield node.test, "boolean", f"(not ({ast.unparse(node.test)}))"
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _wrong(child)


def _expressions(node: ast.expr) -> Iterator[tuple[ast.expr, str, str]]:
    if isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[number] = SWAPPED[type(operator)]()  # type: ignore[call-overload]
            yield node, "compare", f"({ast.unparse(other)})"
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in SWAPPED:
        changed = copy.deepcopy(node)
        changed.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
        kind = "boolean" if isinstance(node, ast.BoolOp) else "arithmetic"
        yield node, kind, f"({ast.unparse(changed)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, "boolean", f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield node, "constant", str(not node.value)
        elif isinstance(node.value, int):
            yield node, "constant", str(node.value + 1)
        elif isinstance(node.value, float):
            yield node, "constant", str(node.value * 2 or 1.0)
    elif isinstance(node, ast.Slice):
        for end in ("lower", "upper"):
            if getattr(node, end) is not None:
                cut = copy.copy(node)
                setattr(cut, end, None)
                yield node, "slice", ast.unparse(cut)
    elif isinstance(node, ast.Call):
        name = node.func
        if isinstance(name, ast.Name) and name.id in SWAPPED_CALLS:
            yield name, "call", SWAPPED_CALLS[name.id]
        if isinstance(name, ast.Attribute) and name.attr in SWAPPED_CALLS:
            other_name = copy.copy(name)
            other_name.attr = SWAPPED_CALLS[name.attr]
            yield name, "call", ast.unparse(other_name)


def _can_go(node: ast.stmt) -> bool:
    """Whether the code still has all its names without the statement."""
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant | ast.Yield)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Delete)


def _for_checkers(node: ast.AST) -> bool:
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name):
        return node.test.id == "TYPE_CHECKING"
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("Literal", "Annotated")
    )
