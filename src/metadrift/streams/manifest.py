"""Tasks from a file: one JSON line per task, with the paths of its images by class.

    {"support": {"cat": ["a.jpg"], "dog": ["b.jpg"]}, "query": {"cat": ["c.jpg"], "dog": ["d.jpg"]}}

Paths count from the manifest's folder. A task may have more images than the geometry asks for;
the first ones are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from metadrift.data.images import UnreadableImageError, decode, read_image_file
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures
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
    tasks_per_step
        Tasks (lines) per batch. A last batch that is not full is left out.
    on_bad
        `stop` raises at a bad line, `skip` goes on and lists it in `bad_lines`.
    """

    def __init__(
        self,
        path: Path | str,
        geometry: TaskGeometry,
        image_size: int = 84,
        channels: Literal[1, 3] = 3,
        tasks_per_step: int = 2,
        on_bad: Literal["stop", "skip"] = "stop",
    ) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise MetadriftError(f"there is no task manifest at {self.path}")
        self.geometry = geometry
        self.image_size, self.channels = image_size, channels
        self.tasks_per_step = tasks_per_step
        self.on_bad = on_bad
        self.bad_lines: list[str] = []
        self._form = Pictures(image_size, channels)
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
        images = torch.from_numpy(np.stack(tasks)).permute(0, 1, 4, 2, 3)
        return TaskBatch(images, self.geometry)

    def state_dict(self) -> dict[str, Any]:
        return {"byte": self._byte, "line": self._line}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._byte, self._line = int(state["byte"]), int(state["line"])

    def _wrong(self, what: str) -> MetadriftError:
        return MetadriftError(f"{self.path}, line {self._line}: {what}")

    def _task(self, line: bytes) -> np.ndarray:
        """uint8 [ways*(shots+queries), H, W, C]."""
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
        for part, images, needed in (("support", support, g.shots), ("query", query, g.queries)):
            for name in classes:
                if len(images[name]) < needed:
                    raise self._wrong(
                        f"class {name!r} has {len(images[name])} {part} images, not {needed}"
                    )
        chosen = [path for name in classes for path in support[name][: g.shots]]
        chosen += [path for name in classes for path in query[name][: g.queries]]
        if len(set(chosen)) < len(chosen):
            raise self._wrong("an image appears twice in the task")
        return np.stack([self._image(path) for path in chosen])

    def _paths(self, task: dict[str, Any], part: str) -> dict[str, list[str]]:
        classes = task.get(part)
        fits = isinstance(classes, dict) and all(
            isinstance(paths, list) and all(isinstance(path, str) for path in paths)
            for paths in classes.values()
        )
        if not fits:
            raise self._wrong(f'"{part}" must map each class to a list of image paths')
        return dict(classes or {})

    def _image(self, path: str) -> np.ndarray:
        try:
            return decode(read_image_file(self.path.parent / path), self._form)
        except OSError as error:
            raise self._wrong(f"image {path!r} cannot be read: {error.strerror}") from None
        except (UnreadableImageError, ValueError) as error:
            raise self._wrong(f"image {path!r} cannot be used: {error}") from None
