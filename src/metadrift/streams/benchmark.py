"""A benchmark: which domains in which order for how many steps, and how much memory.

Benchmarks are TOML files. Those of the package have names (`builtin`, `paper`, ...). A custom file
is given by its path and looks the same:

    title = "My three cameras"
    memory = 60                  # stored task batches
    visits = 1                   # optional: this many rounds through all domains, steps divided
    [[segments]]
    domain = "porch"             # a name for the tables
    steps = 2000
    pack = "packs/porch"         # optional: a folder beside this file; else found by its name
    blend = 0                    # optional: the first steps still bring tasks of the domain before
    [settings]                   # optional: what runs on it begin with
    backbone = "identity"

A run writes the benchmark that it uses into its folder, in the same form, with three more keys:
`name`, `scale` (the steps as a share of the full ones) and `[pinned.DOMAIN]` (which pack it was, by
content; see pinned.py). A pack with other content is refused.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, MinLen

from metadrift.data.pack import Pack, open_pack
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import common_kind
from metadrift.storage.files import is_folder_name
from metadrift.storage.reading import parse_toml, read_text, toml_files
from metadrift.storage.tables import did_you_mean, from_table, to_toml
from metadrift.streams.pinned import PackIdentity, refuse_others


@dataclass(frozen=True)
class Segment:
    """One stay in a domain.

    In its first `blend` steps tasks of the domain before become rarer and those of this one more
    frequent, in a line.
    """

    domain: str
    steps: int
    blend: int = 0

    def scaled(self, scale: float) -> Segment:
        steps = max(1, round(self.steps * scale))
        return Segment(self.domain, steps, min(steps, round(self.blend * scale)))

    def __str__(self) -> str:
        return f"{self.domain} {self.steps}" + (f" (blend {self.blend})" if self.blend else "")


@dataclass(frozen=True)
class Benchmark:
    """The order of domains and the budget.

    Examples
    --------
    >>> small = load_benchmark("paper").scaled(0.05)
    >>> [segment.steps for segment in small.segments], small.memory
    ([250, 100, 300, 100, 100, 1200], 15)
    """

    name: str
    title: str
    segments: tuple[Segment, ...]
    memory: int
    """Stored task batches."""
    tasks_per_step: int
    packs: str | dict[str, Path]
    """"builtin" for the generated domains, else the folder of each domain that names one."""
    scale: float = 1.0
    pinned: dict[str, PackIdentity] = field(default_factory=dict)
    """The content that a domain's pack must have, for the domains that are pinned."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What runs on it begin with, by the names of a run's settings. A run's own settings win."""

    @property
    def steps(self) -> int:
        return sum(segment.steps for segment in self.segments)

    @property
    def domains(self) -> list[str]:
        """Every domain once, in order of first appearance."""
        return list(dict.fromkeys(segment.domain for segment in self.segments))

    def scaled(self, scale: float) -> Benchmark:
        """Steps and memory shrunk together; memory keeps room for two batches per domain."""
        if not 0 < scale <= 1:
            raise UsageError(f"--scale must be above 0 and at most 1, not {scale}")
        floor = min(self.memory, 2 * len(self.domains))
        return replace(
            self,
            segments=tuple(segment.scaled(scale) for segment in self.segments),
            memory=max(floor, round(self.memory * scale)),
            scale=self.scale * scale,
        )

    def only(self, domain: str) -> Benchmark:
        """Only this domain, for as many steps as it has here: independent training."""
        steps = sum(s.steps for s in self.segments if s.domain == domain)
        return replace(self, segments=(Segment(domain, steps),))

    def pinned_to(self, packs: dict[str, Pack]) -> Benchmark:
        """The same on exactly these packs, wherever it is read from."""
        found = {name: packs[name] for name in self.domains}
        places = {name: pack.path.resolve() for name, pack in found.items()}
        return replace(
            self,
            packs="builtin" if self.packs == "builtin" else places,
            pinned={name: PackIdentity.of(pack) for name, pack in found.items()},
        )

    def to_toml(self) -> str:
        """The benchmark as a file, which `load_benchmark` reads back."""
        places = self.packs if isinstance(self.packs, dict) else {}
        rows = [
            asdict(s) | {"blend": s.blend or None, "pack": places.get(s.domain)}
            for s in self.segments
        ]
        return to_toml(
            {
                "name": self.name,
                "title": self.title,
                "packs": "builtin" if self.packs == "builtin" else "data",
                "memory": self.memory,
                "tasks_per_step": self.tasks_per_step,
                "scale": self.scale,
                "segments": rows,
                "pinned": self.pinned,
            }
        )

    def describe(self) -> str:
        stays = ", ".join(map(str, self.segments))
        return (
            f"{stays} ({self.steps} steps, memory {self.memory} batches of {self.tasks_per_step})"
        )


def benchmark_names() -> list[str]:
    """The benchmarks that come with the package."""
    return sorted(toml_files("metadrift.streams", "benchmarks"))


def load_benchmark(name: str) -> Benchmark:
    """A benchmark of the package by name, or a custom one by the path of its TOML file."""
    own = toml_files("metadrift.streams", "benchmarks")
    if name in own:
        return _parse(name, own[name].read_text(encoding="utf-8"), where=name, folder=Path())
    path = Path(name)
    if not path.is_file():
        known = f"; there are {', '.join(benchmark_names())}, and the paths of TOML files"
        hint = did_you_mean(name, benchmark_names()) or known
        raise MetadriftError(f"there is no benchmark {name!r}{hint}")
    return _parse(path.stem, read_text(path), where=str(path), folder=path.parent)


def open_packs(benchmark: Benchmark, data: Path | None = None, size: int = 28) -> dict[str, Pack]:
    """The pack of every domain; the built-in ones are made on first use, at this image size."""
    if benchmark.packs == "builtin":
        from metadrift.data.synthetic.generate import ensure_builtin

        made = ensure_builtin(benchmark.domains, size)
        packs = dict(zip(benchmark.domains, made, strict=True))
    else:
        from metadrift.data.library import data_folder, find_pack

        named = benchmark.packs if isinstance(benchmark.packs, dict) else {}
        folder = data_folder(data)
        packs = {
            name: open_pack(named[name]) if name in named else find_pack(name, folder)
            for name in benchmark.domains
        }
    kinds = {name: pack.kind for name, pack in packs.items()}
    common_kind(kinds, f"benchmark {benchmark.name!r}")
    refuse_others(benchmark.pinned, packs)
    return packs


@dataclass(frozen=True)
class _SegmentTable:
    """A `[[segments]]` of the file."""

    domain: Annotated[str, MinLen(1)]
    steps: Annotated[int, Ge(1)]
    blend: Annotated[int, Ge(0)] = 0
    pack: str | None = None

    def visits(self, rounds: int) -> list[Segment]:
        """The stay divided into one for each round, the first ones a step longer where needed."""
        shorter, more = divmod(self.steps, rounds)
        lengths = [shorter + (turn < more) for turn in range(rounds)]
        return [Segment(self.domain, steps, self.blend) for steps in lengths]


@dataclass(frozen=True)
class _Table:
    """The file."""

    segments: Annotated[tuple[_SegmentTable, ...], MinLen(1)]
    name: str | None = None
    title: str | None = None
    packs: Literal["data", "builtin"] = "data"
    memory: Annotated[int, Ge(1)] = 300
    tasks_per_step: Annotated[int, Ge(1)] = 2
    visits: Annotated[int, Ge(1)] = 1
    scale: Annotated[float, Gt(0), Le(1)] = 1.0
    pinned: dict[str, PackIdentity] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name is not None and not is_folder_name(self.name):
            raise UsageError(f"name must be the name of a folder, not {self.name!r}")
        if self.segments[0].blend and self.visits == 1:
            raise UsageError("segments 1: blend needs a domain before it, and it is the first")
        for number, row in enumerate(self.segments, 1):
            if self.visits > row.steps:
                raise UsageError(
                    f"segments {number}: {row.steps} steps cannot be divided into "
                    f"{self.visits} visits"
                )
            if row.blend > row.steps // self.visits:
                raise UsageError(
                    f"segments {number}: blend must be at most the {row.steps // self.visits} "
                    f"steps of a stay, not {row.blend}"
                )

    def stays(self) -> tuple[Segment, ...]:
        """All segments in order, round after round."""
        rounds = zip(*(row.visits(self.visits) for row in self.segments), strict=True)
        first, *rest = (segment for one in rounds for segment in one)
        return replace(first, blend=0), *rest


def _parse(name: str, text: str, where: str, folder: Path) -> Benchmark:
    where = f"benchmark {where}"
    table = from_table(_Table, parse_toml(text, where), where)
    places = {row.domain: folder / row.pack for row in table.segments if row.pack is not None}
    name = table.name or name
    return Benchmark(
        name=name,
        title=table.title or name,
        segments=table.stays(),
        memory=table.memory,
        tasks_per_step=table.tasks_per_step,
        packs="builtin" if table.packs == "builtin" else places,
        scale=table.scale,
        pinned=table.pinned,
        settings=table.settings,
    )
