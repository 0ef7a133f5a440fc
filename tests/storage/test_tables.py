from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, MinLen

from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.reading import parse_toml
from metadrift.storage.tables import from_table, to_toml


@dataclass(frozen=True)
class Stay:
    domain: Annotated[str, MinLen(1)]
    steps: Annotated[int, Ge(1)]
    pack: Path | None = None


@dataclass(frozen=True)
class Memory:
    capacity: int | None = None
    beta: float = 0.5
    mapped: bool = False


@dataclass(frozen=True)
class Settings:
    method: Literal["reservoir", "mir"] = "mir"
    shots: int = 1
    seeds: tuple[int, ...] = (0,)
    memory: Memory = field(default_factory=Memory)
    stays: tuple[Stay, ...] = ()
    named: dict[str, Memory] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.shots < 1:
            raise UsageError("--shots must be at least 1")


def read(text):
    return from_table(Settings, parse_toml(text, "x.toml"), "x.toml")


def test_what_is_left_out_keeps_its_default_and_a_whole_number_is_a_number():
    found = read(
        "seeds = [3, 4]\n[memory]\nbeta = 1\n[[stays]]\ndomain = 'a'\nsteps = 2\npack = 'p'"
    )
    assert found == Settings(
        seeds=(3, 4), memory=Memory(beta=1.0), stays=(Stay("a", 2, Path("p")),)
    )
    assert type(found.memory.beta) is float


def test_a_table_survives_toml():
    value = Settings(
        "reservoir",
        5,
        (1, 2),
        Memory(7, 1e-9, True),
        (Stay('a "b"\x7f\n', 3, Path("x y/z")), Stay("b", 1)),
        {"a key": Memory()},
    )
    assert read(to_toml(value)) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shot = 1", "x.toml: there is no setting 'shot'; did you mean 'shots'?"),
        (
            "[memory]\ncapacitiy = 1",
            "x.toml: memory: there is no setting 'capacitiy'; did you mean 'capacity'?",
        ),
        (
            "[memory]\nq = 1",
            "x.toml: memory: there is no setting 'q'; there are capacity, beta, mapped",
        ),
        (
            "[[stays]]\ndomain = 'a'\nsteps = 1\n[[stays]]\ndomain = 'a'\nstep = 1",
            "x.toml: stays 2: there is no setting 'step'; did you mean 'steps'?",
        ),
        (
            "[named.a]\nbeat = 1",
            "x.toml: named: a: there is no setting 'beat'; did you mean 'beta'?",
        ),
        ("[[stays]]\nsteps = 1", "x.toml: stays 1 needs 'domain'"),
        ("shots = true", "x.toml: shots must be a whole number, not true"),
        ('shots = "3"', 'x.toml: shots must be a whole number, not "3"'),
        ("shots = 3.0", "x.toml: shots must be a whole number, not 3.0"),
        ("seeds = [0, true]", "x.toml: seeds 2 must be a whole number, not true"),
        ("seeds = 1", "x.toml: seeds must be a list, not 1"),
        ("memory = 1", "x.toml: memory must be a table, not 1"),
        ("stays = 1", "x.toml: stays must be a list, not 1"),
        (
            "[stays]\ndomain = 'a'",
            "x.toml: stays must be a list of tables: write [[stays]] in two brackets",
        ),
        ("named = 1", "x.toml: named must be a table, not 1"),
        ("[memory]\nmapped = 1", "x.toml: memory: mapped must be true or false, not 1"),
        ("[memory]\nbeta = true", "x.toml: memory: beta must be a number, not true"),
        ("[memory]\nbeta = nan", "x.toml: memory: beta must be a finite number, not NaN"),
        ("[memory]\nbeta = 1e999", "x.toml: memory: beta must be a finite number, not Infinity"),
        (
            'method = "resevoir"',
            'x.toml: method must be one of reservoir, mir, not "resevoir"; '
            "did you mean 'reservoir'?",
        ),
        ("method = 1", "x.toml: method must be one of reservoir, mir, not 1"),
        (
            "[[stays]]\ndomain = 1\nsteps = 1",
            "x.toml: stays 1: domain must be text in quotes, not 1",
        ),
        (
            "[[stays]]\ndomain = 'a'\nsteps = 0",
            "x.toml: stays 1: steps must be at least 1, not 0",
        ),
        (
            "[[stays]]\ndomain = ''\nsteps = 1",
            'x.toml: stays 1: domain must be text of at least 1 characters, not ""',
        ),
        ("shots = 0", "x.toml: --shots must be at least 1"),
        (
            "shots = 1979-05-27",
            "x.toml holds a date; write it as text in quotes",
        ),
        ("shots = " + "[" * 250 + "]" * 250, "x.toml is nested too deeply"),
        ("shots = 0x" + "f" * 9000, "x.toml: a number is too long"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_what_would_be_right(text, says):
    with pytest.raises(MetadriftError) as raised:
        read(text)
    assert str(raised.value) == says
