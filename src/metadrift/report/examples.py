"""A few test tasks as pictures, with the predictions of the last checkpoint's learner."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from metadrift.data.sampler import TaskSampler
from metadrift.errors import MetadriftError
from metadrift.evaluation.protocol import evaluation_tasks
from metadrift.examples import common_kind
from metadrift.learners import MetaLearner
from metadrift.learners.outcome import accuracy_of
from metadrift.report.subject import RunData
from metadrift.runs.build import build_learner, plan, scored_domains
from metadrift.runs.checkpoint import checkpoints, load_checkpoint
from metadrift.streams import open_packs
from metadrift.tasks import TaskBatch, TaskGeometry

QUERIES_SHOWN = 2  # of each class


@dataclass(frozen=True)
class Query:
    """A query image, its true class and the predicted one (both from 1)."""

    image: str
    right: bool
    truth: int
    answer: int


@dataclass(frozen=True)
class Example:
    """One task of a domain: a support image of each class, and some queries."""

    domain: str
    accuracy: float
    support: list[str]
    queries: list[Query]


def examples_of(run: RunData) -> list[Example]:
    """The first evaluation task of every domain, with the last checkpoint's predictions.

    Empty without a checkpoint, when the packs are gone, or when they hold no pictures.
    """
    saved = checkpoints(run.folder / "checkpoints")
    if not saved:
        return []
    config = run.config
    try:
        benchmark = plan(config)
        packs = open_packs(benchmark, config.data, config.size)
        kind = common_kind({name: pack.kind for name, pack in packs.items()}, "the run")
        kind.as_pictures("a grid of examples")
        geometry = TaskGeometry(config.ways, config.shots, config.queries)
        learner = build_learner(config, kind)
        learner.load_state_dict(load_checkpoint(saved[-1])["method"]["learner"])
        found = []
        for name in scored_domains(config, benchmark, packs):
            sampler = TaskSampler(packs[name], config.split, geometry, kind)
            rows = evaluation_tasks(sampler, name, tasks=1, seed=config.seed)
            found.append(_example(name, learner, sampler.gather(rows)))
    except (MetadriftError, KeyError, RuntimeError):  # RuntimeError: weights of another shape
        return []
    return found


def _example(domain: str, learner: MetaLearner, tasks: TaskBatch) -> Example:
    g = tasks.geometry
    logits = learner.predict(tasks.support, tasks.support_labels, tasks.query)
    answers = logits[0].argmax(-1).view(g.ways, g.queries)
    images = tasks.images[0].permute(0, 2, 3, 1).numpy()
    first = g.ways * g.shots
    queries = [
        Query(_png(images[first + c * g.queries + q]), answer == c, c + 1, answer + 1)
        for q in range(min(QUERIES_SHOWN, g.queries))
        for c in range(g.ways)
        for answer in [int(answers[c, q])]
    ]
    support = [_png(images[c * g.shots]) for c in range(g.ways)]
    return Example(domain, float(accuracy_of(logits)[0]), support, queries)


def _png(image: NDArray[np.uint8]) -> str:
    """An image [H, W, C] as a data URI."""
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
