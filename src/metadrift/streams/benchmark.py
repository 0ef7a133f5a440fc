"""A benchmark: which domains in which order for how many steps, and how much memory.

Benchmarks are TOML files. Those of the package go by name (`builtin`, `paper`, ...); a file of
one's own goes by its path and looks the same:

    title = "My three cameras"
    memory = 60                  # stored task batches
    [[segments]]
    domain = "porch"             # a name for the tables
    steps = 2000
    pack = "packs/porch"         # optional: a folder beside this file; else found by its name

A run writes the benchmark that it uses into its folder, in the same form, with three more keys:
`name`, `scale` (what the steps are of the full ones) and `[pinned.DOMAIN]` (which pack it was, by
content; see pinned.py). A pack with other content is refused.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from metadrift.data.pack import Pack, open_pack
from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.files import is_folder_name
from metadrift.storage.tables import to_toml
from metadrift.streams.pinned import PackIdentity, parse_pinned, refuse_others


@dataclass(frozen=True)
class Segment:
    """One stay in a domain."""

    domain: str
    steps: int


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

    @property
    def steps(self) -> int:
        return sum(segment.steps for segment in self.segments)

    @property
    def domains(self) -> list[str]:
        """Every domain once, in order of first appearance."""
        return list(dict.fromkeys(segment.domain for segment in self.segments))

    def scaled(self, scale: float) -> Benchmark:
        """Steps and memory shrunk together; memory keeps room for two batches a domain."""
        if not 0 < scale <= 1:
            raise UsageError(f"--scale must be above 0 and at most 1, not {scale}")
        floor = min(self.memory, 2 * len(self.domains))
        return replace(
            self,
            segments=tuple(
                Segment(s.domain, max(1, round(s.steps * scale))) for s in self.segments
            ),
            memory=max(floor, round(self.memory * scale)),
            scale=self.scale * scale,
        )

    def only(self, domain: str) -> Benchmark:
        """This domain alone, for as many steps as it has here: independent training."""
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
        rows = [asdict(s) | {"pack": places.get(s.domain)} for s in self.segments]
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
        stays = ", ".join(f"{s.domain} {s.steps}" for s in self.segments)
        return (
            f"{stays} ({self.steps} steps, memory {self.memory} batches of {self.tasks_per_step})"
        )


def benchmark_names() -> list[str]:
    """The benchmarks that come with the package."""
    folder = resources.files("metadrift.streams") / "benchmarks"
    return sorted(
        f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")
    )


def load_benchmark(name: str) -> Benchmark:
    """A benchmark of the package by name, or one's own by the path of its TOML file."""
    if name in benchmark_names():
        file = resources.files("metadrift.streams") / "benchmarks" / f"{name}.toml"
        return _parse(name, file.read_text(encoding="utf-8"), where=name, folder=Path())
    path = Path(name)
    if not path.is_file():
        raise MetadriftError(
            f"there is no benchmark {name!r}: use one of {', '.join(benchmark_names())}, "
            "or the path of a TOML file"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MetadriftError(f"benchmark {path} cannot be read: {error}") from None
    return _parse(path.stem, text, where=str(path), folder=path.parent)


def open_packs(
    benchmark: Benchmark,
    data: Path | None = None,
    size: int = 28,
    seed: int = 0,
) -> dict[str, Pack]:
    """The pack of every domain; the built-in ones (`size`, `seed`) are made on first use."""
    if benchmark.packs == "builtin":
        from metadrift.data.synthetic.generate import ensure_builtin

        made = ensure_builtin(benchmark.domains, size=size, seed=seed)
        packs = dict(zip(benchmark.domains, made, strict=True))
    else:
        from metadrift.data.library import data_folder, find_pack

        named = benchmark.packs if isinstance(benchmark.packs, dict) else {}
        folder = data_folder(data)
        packs = {
            name: open_pack(named[name]) if name in named else find_pack(name, folder)
            for name in benchmark.domains
        }
    sizes = {name: pack.image_size for name, pack in packs.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} {size} px" for name, size in sizes.items())
        raise MetadriftError(
            f"the packs of benchmark {benchmark.name!r} differ in image size ({listed}); "
            "import them with one --size into one data folder"
        )
    refuse_others(benchmark.pinned, packs)
    return packs


def _parse(name: str, text: str, where: str, folder: Path) -> Benchmark:
    def wrong(what: str) -> MetadriftError:
        return MetadriftError(f"benchmark {where}: {what}")

    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise wrong(f"not TOML: {error}") from None
    known = {"name", "title", "packs", "memory", "tasks_per_step", "scale", "segments", "pinned"}
    unknown = set(table) - known
    if unknown:
        raise wrong(f"unknown key {sorted(unknown)[0]!r}")
    rows = table.get("segments")
    if not isinstance(rows, list) or not rows:
        raise wrong("needs at least one [[segments]] with a domain and steps")
    segments: list[Segment] = []
    packs: dict[str, Path] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or set(row) - {"domain", "steps", "pack"}:
            raise wrong(f"segment {number} may have domain, steps and pack, and nothing else")
        domain, pack = row.get("domain"), row.get("pack")
        if not isinstance(domain, str) or not domain:
            raise wrong(f"segment {number} needs a domain, a name in quotes")
        segments.append(Segment(domain, _whole(row, "steps", 0, f"{where}: segment {number}")))
        if pack is not None:
            if not isinstance(pack, str):
                raise wrong(f"segment {number}: pack must be a folder in quotes")
            packs[domain] = folder / pack
    kind = table.get("packs", "data")
    if kind not in ("data", "builtin"):
        raise wrong(f'packs must be "data" or "builtin", not {kind!r}')
    name, scale = table.get("name", name), table.get("scale", 1.0)
    if not isinstance(name, str) or not is_folder_name(name):
        raise wrong(f"name must be a plain name in quotes, not {name!r}")
    if type(scale) not in (int, float) or not 0 < scale <= 1:
        raise wrong(f"scale must be above 0 and at most 1, not {scale!r}")
    return Benchmark(
        name=name,
        title=str(table.get("title", name)),
        segments=tuple(segments),
        memory=_whole(table, "memory", 300, where),
        tasks_per_step=_whole(table, "tasks_per_step", 2, where),
        packs="builtin" if kind == "builtin" else packs,
        scale=float(scale),
        pinned=parse_pinned(table.get("pinned", {}), where),
    )


def _whole(table: dict[str, Any], key: str, default: int, where: str) -> int:
    value = table.get(key, default)
    if type(value) is not int or value < 1:
        raise MetadriftError(
            f"benchmark {where}: {key} must be a whole number from 1, not {value!r}"
        )
    return value
