"""Tables (TOML, JSON) as dataclasses and back: a file's fields are declared once.

pydantic does the reading. It refuses unknown keys inside plain dataclasses and takes neither `true`
nor `"3"` for a number. It reports the place and the kind of an error as data, from which the
sentences below are made. (msgspec ignores unknown keys of a dataclass. cattrs needs a hook for
every strict type and reports errors only as text.) Loading pydantic takes 90 ms of processor time,
so it is imported when a file is read.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from metadrift.errors import MetadriftError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

T = TypeVar("T")

_MUST_BE = {
    "int_type": "a whole number",
    "int_parsing_size": "a shorter number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text in quotes",
    "path_type": "a path in quotes",
    "dataclass_type": "a table",
    "dict_type": "a table",
    "list_type": "a list",
    "tuple_type": "a list",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "string_too_short": "text of at least {min_length} characters",
    "too_short": "a list of at least {min_length}",
}


def from_table(kind: type[T], table: object, where: str, *, more_keys: bool = False) -> T:
    """A dataclass from a table; what is left out keeps its default.

    Unknown keys are refused, and so are values of another type. Whole
    numbers are taken where any number will do, and text where a path is needed.

    Parameters
    ----------
    kind
        The dataclass. Its fields may be other dataclasses, and lists and tables of them.
    table
        What a TOML or JSON file holds.
    where
        How errors begin, such as the file's name.
    more_keys
        Leave out keys that the dataclass has no field for, instead of refusing them.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Stay:
    ...     domain: str
    ...     steps: int = 100
    >>> from_table(Stay, {"domain": "porch"}, "stay.toml")
    Stay(domain='porch', steps=100)
    >>> from_table(Stay, {"domain": "porch", "step": 5}, "stay.toml")
    Traceback (most recent call last):
    metadrift.errors.MetadriftError: stay.toml: there is no setting 'step'; did you mean 'steps'?
    """
    from pydantic import ValidationError

    try:
        text = json.dumps([table])
    except TypeError:  # TOML has dates, JSON has none
        raise MetadriftError(f"{where} holds a date; write it as text in quotes") from None
    except ValueError:
        raise MetadriftError(f"{where}: a number is too long") from None
    try:
        (value,) = _adapter(kind, more_keys).validate_json(text)  # type: ignore[arg-type]
    except ValidationError as error:
        # A mistyped key comes before the one that is missing for it.
        wrong = sorted(error.errors(), key=lambda one: "unexpected" not in one["type"])[0]
        raise MetadriftError(_sentence(kind, wrong, where)) from None
    except UsageError as error:  # from the dataclass itself
        raise MetadriftError(f"{where}: {error}") from None
    return typing.cast(T, value)


def to_toml(value: Any) -> str:
    """A dataclass or a table as TOML: plain values first, then a section per table.

    None is left out: TOML has no null, and leaving out says the same.

    Examples
    --------
    >>> print(to_toml({"name": "mine", "size": None, "stays": [{"steps": 1}], "on": {"a b": True}}))
    name = "mine"
    stays = [
        { steps = 1 },
    ]
    <BLANKLINE>
    [on]
    "a b" = true
    <BLANKLINE>
    """
    import tomli_w

    return tomli_w.dumps(_plain(value))


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """A table updated by another one, group by group.

    Examples
    --------
    >>> merged({"a": 1, "g": {"x": 1, "y": 2}}, {"g": {"y": 3}})
    {'a': 1, 'g': {'x': 1, 'y': 3}}
    """
    result = json.loads(json.dumps(base))
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return dict(result)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that does not exist: the likeliest one, if any is near.

    Examples
    --------
    >>> did_you_mean("resevoir", ["reservoir", "mir"]), did_you_mean("x", ["mir"])
    ("; did you mean 'reservoir'?", '')
    """
    near = difflib.get_close_matches(given, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


@cache
def _adapter(kind: Any, more_keys: bool) -> TypeAdapter[list[Any]]:
    from pydantic import TypeAdapter

    # Inside a list, so that the configuration reaches every dataclass.
    return TypeAdapter(
        list[kind],
        config={
            "extra": "ignore" if more_keys else "forbid",
            "strict": True,
            "allow_inf_nan": False,
        },
    )


def _sentence(kind: type, error: ErrorDetails, where: str) -> str:
    place = list(error["loc"][1:])
    what, given = error["type"], error.get("input")
    if what == "json_invalid":
        return f"{where} is nested too deeply"
    if "unexpected" in what:
        key = str(place.pop())
        known = _fields(kind, place)
        hint = did_you_mean(key, known) or f"; there are {', '.join(known)}"
        return f"{_at(where, place)}: there is no setting {key!r}{hint}"
    if what in ("missing", "missing_argument"):
        return f"{_at(where, place[:-1])} needs {place[-1]!r}"
    at = _at(where, place)
    if what == "literal_error":
        choices = typing.get_args(_kind_at(kind, place))
        hint = did_you_mean(given, choices) if isinstance(given, str) else ""
        return f"{at} must be one of {', '.join(map(str, choices))}, not {_shown(given)}{hint}"
    if what in ("list_type", "tuple_type") and isinstance(given, dict):
        return f"{at} must be a list of tables: write [[{place[-1]}]] in two brackets"
    right = _MUST_BE[what].format(**error.get("ctx", {})) if what in _MUST_BE else error["msg"]
    return f"{at} must be {right}, not {_shown(given)}"


def _at(where: str, place: Sequence[int | str]) -> str:
    """The place in the table as people count: `b.toml: segments 2: steps`."""
    words: list[str] = []
    for step in place:
        if isinstance(step, str):
            words.append(step)
        elif words:
            words[-1] += f" {step + 1}"
    return ": ".join([where, *words])


def _fields(kind: type, place: Sequence[int | str]) -> list[str]:
    return [field.name for field in dataclasses.fields(_kind_at(kind, place))]


def _kind_at(kind: Any, place: Sequence[int | str]) -> Any:
    """The declared type at a place in the table."""
    for step in place:
        if dataclasses.is_dataclass(kind):
            kind = typing.get_type_hints(kind)[str(step)]
        else:
            kind = typing.get_args(kind)[-1 if isinstance(step, str) else 0]
        if typing.get_origin(kind) in (typing.Union, types.UnionType):
            kind = next(one for one in typing.get_args(kind) if one is not type(None))
    return kind


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, Path) else value
