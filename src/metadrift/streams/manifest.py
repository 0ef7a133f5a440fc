"""Tasks from a file: one JSON line per task, with the paths of its images by class.

    {"support": {"cat": ["a.jpg"], "dog": ["b.jpg"]}, "query": {"cat": ["c.jpg"], "dog": ["d.jpg"]}}

Paths count from the manifest's folder. A task may have more images than the geometry asks for;
the first ones are taken. In a manifest of vectors or arrays a list of numbers stands for each path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from metadrift.data.images import UnreadableImageError, decode, read_image_file
from metadrift.errors import MetadriftError
from metadrift.examples import ExampleKind, Pictures, as_kind
from metadrift.storage.reading import as_text, parse_json
from metadrift.tasks import TaskBatch, TaskGeometry

_MAX_LINE = 64 * 2**20  # bytes; a longer line is read as several, which are not JSON


class ManifestStream:
    """Reads tasks lazily, a few lines at a time; memory does not grow with the file.

    Parameters
    ----------
    path
        The JSONL file.
    geometry
        Ways, shots and queries; a line with fewer is a bad line.
    image_size, channels
        What images are resized to.
    example
        What the examples are where they are not pictures: the shape of float32 arrays, or a kind.
    tasks_per_step
        Tasks (lines) per batch. A last batch that is not full is left out.
    on_bad
        `stop` raises at a bad line, `skip` lists it in `bad_lines` and continues.
    """

    def __init__(
        self,
        path: Path | str,
        geometry: TaskGeometry,
        image_size: int = 84,
        channels: Literal[1, 3] = 3,
        tasks_per_step: int = 2,
        on_bad: Literal["stop", "skip"] = "stop",
        example: ExampleKind | Sequence[int] | None = None,
    ) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise MetadriftError(f"there is no task manifest at {self.path}")
        self.geometry = geometry
        self.tasks_per_step = tasks_per_step
        self.on_bad = on_bad
        self.bad_lines: list[str] = []
        self.kind = Pictures(image_size, channels) if example is None else as_kind(example)
        self._byte = self._line = 0

    def __iter__(self) -> Iterator[TaskBatch]:
        return self

    def __next__(self) -> TaskBatch:
        tasks: list[np.ndarray] = []
        with open(self.path, "rb") as file:
            file.seek(self._byte)
            while len(tasks) < self.tasks_per_step:
                line = file.readline(_MAX_LINE)
                if not line:
                    raise StopIteration
                self._line += 1
                self._byte = file.tell()
                if not line.strip():
                    continue
                try:
                    tasks.append(self._task(line))
                except MetadriftError as error:
                    if self.on_bad == "stop":
                        raise
                    self.bad_lines.append(str(error))
        return TaskBatch(self.kind.from_pack(np.stack(tasks)), self.geometry)

    def state_dict(self) -> dict[str, Any]:
        return {"byte": self._byte, "line": self._line}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._byte, self._line = int(state["byte"]), int(state["line"])

    def _wrong(self, what: str) -> MetadriftError:
        return MetadriftError(f"{self.path}, line {self._line}: {what}")

    def _task(self, line: bytes) -> np.ndarray:
        """[ways*(shots+queries), *example], as in a pack."""
        where = f"{self.path}, line {self._line}:"
        task = parse_json(as_text(line, where), where)
        if not isinstance(task, dict):
            raise self._wrong('a task is an object with "support" and "query"')
        support, query = self._paths(task, "support"), self._paths(task, "query")
        if set(support) != set(query):
            raise self._wrong("support and query must name the same classes")
        g = self.geometry
        if len(support) < g.ways:
            raise self._wrong(f"{len(support)} classes, but the stream has {g.ways} ways")
        classes = list(support)[: g.ways]
        what = "images" if isinstance(self.kind, Pictures) else "examples"
        for part, images, needed in (("support", support, g.shots), ("query", query, g.queries)):
            for name in classes:
                if len(images[name]) < needed:
                    raise self._wrong(
                        f"class {name!r} has {len(images[name])} {part} {what}, not {needed}"
                    )
        chosen = [path for name in classes for path in support[name][: g.shots]]
        chosen += [path for name in classes for path in query[name][: g.queries]]
        if not isinstance(self.kind, Pictures):
            return np.stack([self._array(numbers) for numbers in chosen])
        if len(set(chosen)) < len(chosen):
            raise self._wrong("an image appears twice in the task")
        return np.stack([self._image(path, self.kind) for path in chosen])

    def _paths(self, task: dict[str, Any], part: str) -> dict[str, list[Any]]:
        classes = task.get(part)
        entry = str if isinstance(self.kind, Pictures) else list
        fits = isinstance(classes, dict) and all(
            isinstance(entries, list) and all(isinstance(one, entry) for one in entries)
            for entries in classes.values()
        )
        if not fits:
            what = "image paths" if entry is str else "lists of numbers"
            raise self._wrong(f'"{part}" must map each class to a list of {what}')
        return dict(classes or {})

    def _array(self, numbers: list[Any]) -> np.ndarray:
        try:
            with np.errstate(over="ignore"):
                found = np.array(numbers, np.float64).astype(self.kind.dtype)
        except (ValueError, TypeError):
            found = np.empty(0)
        if found.shape != self.kind.shape or not np.isfinite(found).all():
            raise self._wrong(f"an example must be finite numbers of the shape of {self.kind}")
        return found

    def _image(self, path: str, form: Pictures) -> np.ndarray:
        try:
            return decode(read_image_file(self.path.parent / path), form)
        except OSError as error:
            raise self._wrong(f"image {path!r} cannot be read: {error.strerror}") from None
        except (UnreadableImageError, ValueError) as error:
            raise self._wrong(f"image {path!r} cannot be used: {error}") from None
