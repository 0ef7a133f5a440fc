"""A comparison: variants x learners x shots x seeds on one benchmark, as a list of runs.

A variant is a method, or a method with settings of its own. In a TOML file:

    title = "What PETS brings"
    shots = [1, 5]
    seeds = [0, 1, 2]
    reference = "reservoir"

    [settings]                       # any setting of a run, for all variants
    benchmark = "builtin"
    scale = 0.05

    [[variants]]
    method = "reservoir"             # its name is the method's unless it says `name = ...`

    [[variants]]
    name = "without PETS"
    method = "m2d3-pets"
    replay.sampler = "uniform"

Three more keys are for numbers that were published: `published` (a list of variant, learner, shots,
mean and half_width in percent; they stand beside ours in the table), `source` (where they are from)
and `notes` (sentences below the table). `[against]` gives a variant a reference of its own.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from metadrift.errors import MetadriftError, UsageError
from metadrift.runs.config import RunConfig, from_table, to_toml


@dataclass(frozen=True)
class Cell:
    """One run of a comparison and where it stands in the table."""

    variant: str
    learner: str
    shots: int
    seed: int
    config: RunConfig

    @property
    def name(self) -> str:
        """The run's folder."""
        plain = "".join(c if c.isalnum() or c in "-_.+" else "-" for c in self.variant)
        return f"{plain}-{self.learner}-{self.shots}shot-seed{self.seed}"


@dataclass(frozen=True)
class Published:
    """A number that somebody published for a row of the table, in percent as it was printed."""

    variant: str
    learner: str
    shots: int
    mean: float
    half_width: float


@dataclass(frozen=True)
class Grid:
    """What is compared.

    Examples
    --------
    >>> grid = Grid("two", {"sequential": {"method": "sequential"}, "joint": {"method": "joint"}},
    ...             seeds=(0, 1), settings={"scale": 0.1})
    >>> [cell.name for cell in grid.cells()][:2]
    ['sequential-protonet-1shot-seed0', 'sequential-protonet-1shot-seed1']
    """

    title: str
    variants: dict[str, dict[str, Any]]
    learners: Sequence[str] = ("protonet",)
    shots: Sequence[int] = (1,)
    seeds: Sequence[int] = (0, 1, 2)
    reference: str | None = None
    settings: dict[str, Any] | None = None
    against: dict[str, str] | None = None
    published: Sequence[Published] = ()
    source: str = ""
    notes: Sequence[str] = ()

    def cells(self) -> list[Cell]:
        """Every run, seed by seed within a row of the table; wrong settings are refused here."""
        found = [
            Cell(variant, learner, shots, seed, self._config(variant, learner, shots, seed))
            for shots in self.shots
            for learner in self.learners
            for variant in self.variants
            for seed in self.seeds
        ]
        if not found:
            raise MetadriftError("a comparison needs at least one method, learner, shots and seed")
        names = [cell.name for cell in found]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise MetadriftError(f"two runs of the comparison have the name {sorted(twice)[0]!r}")
        for reference in (self.reference, *(self.against or {}).values()):
            if reference is not None and reference not in self.variants:
                known = ", ".join(self.variants)
                raise MetadriftError(f"the reference {reference!r} is not among {known}")
        return found

    def reference_of(self, variant: str) -> str | None:
        """What the variant's difference is taken to; None for a reference itself."""
        reference = (self.against or {}).get(variant, self.reference)
        return None if reference == variant else reference

    def selected(
        self,
        variants: Sequence[str] | None = None,
        shots: Sequence[int] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> Grid:
        """A part of the comparison; what is None stays as it is."""
        names = list(self.variants) if variants is None else list(variants)
        for name in names:
            if name not in self.variants:
                known = ", ".join(map(repr, self.variants))
                raise UsageError(f"there is no variant {name!r}; there are {known}")
        against = {a: b for a, b in (self.against or {}).items() if a in names and b in names}
        shots = self.shots if shots is None else shots
        return replace(
            self,
            variants={name: self.variants[name] for name in names},
            shots=tuple(shots),
            seeds=tuple(self.seeds if seeds is None else seeds),
            reference=self.reference if self.reference in names else None,
            against=against,
            published=tuple(p for p in self.published if p.variant in names and p.shots in shots),
        )

    def _config(self, variant: str, learner: str, shots: int, seed: int) -> RunConfig:
        table = merged(self.settings or {}, self.variants[variant])
        table = merged(table, {"learner": learner, "shots": shots, "seed": seed})
        return from_table(table, f"variant {variant!r}")

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "variants": self.variants,
            "learners": list(self.learners),
            "shots": list(self.shots),
            "seeds": list(self.seeds),
            "reference": self.reference,
            "settings": self.settings or {},
            "against": self.against or {},
            "published": [asdict(row) for row in self.published],
            "source": self.source,
            "notes": list(self.notes),
        }


def settings_of(config: RunConfig) -> dict[str, Any]:
    """The settings of a configuration as a table, without what a grid sets itself."""
    table = _placed(tomllib.loads(to_toml(config)), Path())
    return {k: v for k, v in table.items() if k not in ("method", "learner", "shots", "seed")}


def load_grid(path: Path) -> Grid:
    """Read a comparison from its TOML file."""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise MetadriftError(f"comparison {path} cannot be read: {error}") from None
    settings, variants = table.get("settings"), table.get("variants")
    if isinstance(settings, dict):
        table["settings"] = _placed(settings, path.parent)
    if isinstance(variants, list):
        rows = [_placed(row, path.parent) if isinstance(row, dict) else row for row in variants]
        table["variants"] = rows
    return parse_grid(table, str(path), path.stem)


def _placed(settings: dict[str, Any], base: Path) -> dict[str, Any]:
    """Settings whose paths, which count from `base`, hold from anywhere."""
    benchmark, data = settings.get("benchmark"), settings.get("data")
    found = dict(settings)
    if isinstance(benchmark, str) and benchmark.endswith(".toml"):
        found["benchmark"] = str((base / benchmark).resolve())
    if isinstance(data, str):
        found["data"] = str((base / data).resolve())
    return found


def parse_grid(table: dict[str, Any], where: str, title: str) -> Grid:
    """A comparison from its table."""
    known = {"title", "learners", "shots", "seeds", "reference", "settings", "variants"}
    known |= {"against", "published", "source", "notes"}
    unknown = set(table) - known
    if unknown:
        raise MetadriftError(f"comparison {where}: unknown key {sorted(unknown)[0]!r}")
    variants: dict[str, dict[str, Any]] = {}
    rows = table.get("variants", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MetadriftError(f"comparison {where}: variants must be [[variants]] tables")
    for row in rows:
        settings = dict(row)
        name = settings.pop("name", settings.get("method"))
        if not isinstance(name, str) or name in variants:
            raise MetadriftError(f"comparison {where}: each variant needs a name of its own")
        variants[name] = settings
    for key, kind in (("learners", str), ("shots", int), ("seeds", int), ("notes", str)):
        values = table.get(key, [])
        if not isinstance(values, list) or not all(type(v) is kind for v in values):
            raise MetadriftError(f"comparison {where}: {key} must be a list of {kind.__name__}")
    for key in ("settings", "against"):
        if not isinstance(table.get(key, {}), dict):
            raise MetadriftError(f"comparison {where}: {key} must be a table")
    return Grid(
        title=str(table.get("title", title)),
        variants=variants,
        learners=tuple(table.get("learners", ["protonet"])),
        shots=tuple(table.get("shots", [1])),
        seeds=tuple(table.get("seeds", [0, 1, 2])),
        reference=table.get("reference"),
        settings=table.get("settings", {}),
        against=table.get("against", {}),
        published=_published(table.get("published", []), variants, where),
        source=str(table.get("source", "")),
        notes=tuple(table.get("notes", [])),
    )


def _published(rows: Any, variants: dict[str, Any], where: str) -> tuple[Published, ...]:
    kinds = {"variant": str, "learner": str, "shots": int, "mean": float, "half_width": float}
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], 1):
        fits = isinstance(row, dict) and {key: type(value) for key, value in row.items()} == kinds
        if not fits or row["variant"] not in variants:
            raise MetadriftError(
                f"comparison {where}: published row {number} needs a variant of the comparison, "
                "a learner, shots, mean and half_width (numbers with a point, in percent)"
            )
    return tuple(Published(**row) for row in rows)


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """A table with another laid over it, group by group.

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
