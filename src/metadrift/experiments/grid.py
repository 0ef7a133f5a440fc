"""A comparison: variants x learners x shots x seeds on one benchmark, as a list of runs.

A variant is a method with settings. In a TOML file:

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

Three more keys are for published numbers: `published` (a list of variant, learner, shots, mean and
half_width in percent, shown beside ours in the table), `source` (where they were published) and
`notes` (sentences below the table). `[against]` gives a variant another reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from metadrift import registry
from metadrift.errors import MetadriftError, UsageError
from metadrift.runs.config import RunConfig, spelled_out, to_toml, with_benchmark
from metadrift.storage.files import plain
from metadrift.storage.reading import parse_toml, read_toml
from metadrift.storage.tables import did_you_mean, from_table, merged


@dataclass(frozen=True)
class Cell:
    """One run of a comparison, and its place in the table."""

    variant: str
    learner: str
    shots: int
    seed: int
    config: RunConfig

    @property
    def name(self) -> str:
        """The run's folder."""
        safe = "".join(c if c.isalnum() or c in "-_.+" else "-" for c in self.variant)
        return f"{safe}-{registry.short(self.learner)}-{self.shots}shot-seed{self.seed}"


@dataclass(frozen=True)
class Published:
    """A published number for a row of the table, in percent."""

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
    ['sequential-protonet-1shot-seed0', 'joint-protonet-1shot-seed0']
    """

    title: str
    variants: dict[str, dict[str, Any]]
    learners: tuple[str, ...] = ("protonet",)
    shots: tuple[int, ...] = (1,)
    seeds: tuple[int, ...] = (0, 1, 2)
    reference: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    against: dict[str, str] = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """Every run, seed by seed, so that a first seed of every row comes early.

        Wrong settings raise here.
        """
        found = [
            Cell(variant, learner, shots, seed, self._config(variant, learner, shots, seed))
            for seed in self.seeds
            for shots in self.shots
            for learner in self.learners
            for variant in self.variants
        ]
        if not found:
            raise MetadriftError("a comparison needs at least one method, learner, shots and seed")
        names = [cell.name for cell in found]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise MetadriftError(f"two runs of the comparison have the name {sorted(twice)[0]!r}")
        for reference in (self.reference, *self.against.values()):
            if reference is not None and reference not in self.variants:
                known = ", ".join(self.variants)
                raise MetadriftError(f"the reference {reference!r} is not among {known}")
        return found

    def reference_of(self, variant: str) -> str | None:
        """The variant to compare this one with; None for a reference itself."""
        reference = self.against.get(variant, self.reference)
        return None if reference == variant else reference

    def selected(
        self,
        variants: Sequence[str] | None = None,
        shots: Sequence[int] | None = None,
        seeds: Sequence[int] | None = None,
    ) -> Grid:
        """A part of the comparison. An argument that is None keeps all."""
        names = list(self.variants) if variants is None else list(variants)
        for name in names:
            if name not in self.variants:
                known = ", ".join(map(repr, self.variants))
                raise UsageError(f"there is no variant {name!r}; there are {known}")
        against = {a: b for a, b in self.against.items() if a in names and b in names}
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
        table = merged(spelled_out(self.settings), spelled_out(self.variants[variant]))
        table = merged(table, {"learner": learner, "shots": shots, "seed": seed})
        return from_table(RunConfig, with_benchmark(table), f"variant {variant!r}")

    def to_json(self) -> dict[str, Any]:
        """The comparison as grid.json holds it."""
        return dict(plain(asdict(self)))


def settings_of(config: RunConfig) -> dict[str, Any]:
    """The settings of a configuration as a table, without what a grid sets itself."""
    table = _placed(parse_toml(to_toml(config), "settings"), Path())
    return {k: v for k, v in table.items() if k not in ("method", "learner", "shots", "seed")}


def load_grid(path: Path) -> Grid:
    """Read a comparison from its TOML file. Paths in it are relative to the file's folder."""
    return parse_grid(read_toml(path), str(path), path.stem, path.parent)


def _placed(settings: dict[str, Any], base: Path) -> dict[str, Any]:
    """Settings with absolute paths; relative ones start at the folder `base`."""
    benchmark, data = settings.get("benchmark"), settings.get("data")
    found = dict(settings)
    if isinstance(benchmark, str) and benchmark.endswith(".toml"):
        found["benchmark"] = str((base / benchmark).resolve())
    if isinstance(data, str):
        found["data"] = str((base / data).resolve())
    return found


@dataclass(frozen=True)
class _Rows:
    """The `[[variants]]` of the file."""

    variants: tuple[dict[str, Any], ...] = ()


def parse_grid(table: dict[str, Any], where: str, title: str, base: Path | None = None) -> Grid:
    """A comparison from its table. Paths in its settings are relative to the folder `base`."""
    where = f"comparison {where}"
    rows = from_table(_Rows, {"variants": table.get("variants", [])}, where).variants
    variants: dict[str, dict[str, Any]] = {}
    for row in rows:
        settings = dict(row) if base is None else _placed(row, base)
        method = settings.get("method")
        name = settings.pop("name", registry.short(method) if isinstance(method, str) else None)
        if not isinstance(name, str) or name in variants:
            raise MetadriftError(f"{where}: each variant needs a `name` that no other has")
        variants[name] = settings
    grid = from_table(Grid, {"title": title, **table, "variants": variants}, where)
    for number in grid.published:
        if number.variant not in variants:
            hint = did_you_mean(number.variant, variants)
            raise MetadriftError(f"{where}: published: no variant {number.variant!r}{hint}")
    return grid if base is None else replace(grid, settings=_placed(grid.settings, base))
