"""The result of an import, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from metadrift.data.importers.plan import Unreadable
from metadrift.data.pack import Split
from metadrift.storage.terminal import printable

_SHOWN = 20  # unreadable files that are named one by one


@dataclass(frozen=True)
class ImportReport:
    """The new pack, and what was left out of it.

    Examples
    --------
    >>> lost = [Unreadable("cat/3.jpg", "empty")]
    >>> classes: dict[Split, int] = {"train": 3, "val": 1, "test": 1}
    >>> print(ImportReport(Path("data/pets"), "pets", 50, classes, lost, [], 0.5).as_text())
    1 file could not be read and left out:
      cat/3.jpg: empty
    50 images of 5 classes (3 train, 1 val, 1 test) in 0.5 s, 100 images per second
    pack: data/pets
    """

    path: Path
    name: str
    images: int
    classes: dict[Split, int]
    unreadable: list[Unreadable]
    notes: list[str]
    seconds: float
    what: str = "images"

    @property
    def images_per_second(self) -> float:
        return self.images / max(self.seconds, 1e-9)

    def as_text(self) -> str:
        """As text. Of many unreadable files only the first are named."""
        lines = [f"note: {note}" for note in self.notes]
        if self.unreadable:
            files = "1 file" if len(self.unreadable) == 1 else f"{len(self.unreadable)} files"
            lines.append(f"{files} could not be read and left out:")
            lines += [f"  {printable(one.name)}: {one.reason}" for one in self.unreadable[:_SHOWN]]
            if len(self.unreadable) > _SHOWN:
                lines.append(f"  and {len(self.unreadable) - _SHOWN} more (--json lists all)")
        by_split = ", ".join(f"{count} {split}" for split, count in self.classes.items())
        lines.append(
            f"{self.images} {self.what} of {sum(self.classes.values())} classes ({by_split}) in "
            f"{self.seconds:.1f} s, {self.images_per_second:.0f} {self.what} per second"
        )
        return "\n".join([*lines, f"pack: {self.path}"])

    def as_json(self) -> str:
        """For programs, with all unreadable files."""
        result = asdict(self) | {"path": str(self.path)}
        result["images_per_second"] = round(self.images_per_second, 1)
        return json.dumps(result, indent=1, ensure_ascii=False)
