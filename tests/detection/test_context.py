"""What tasks say besides their images: carried along, and watched where asked for."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from metadrift.cli import main
from metadrift.data.names import hashed_names
from metadrift.data.pack import open_pack
from metadrift.data.sampler import TaskSampler
from metadrift.detection import DetectionConfig, make_detector
from metadrift.detection.features import make_features
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Pictures
from metadrift.tasks import TaskBatch, TaskGeometry
from tiny_runs import write_domain

GEOMETRY = TaskGeometry(3, 1, 1)
WITH = replace(DetectionConfig().scaled(0.05), context=True)


@pytest.fixture
def pack(tmp_path):
    return open_pack(write_domain(tmp_path, "tools", 1, 90))


def test_a_task_carries_the_mean_of_its_classes_names(pack):
    sampler = TaskSampler(pack, "train", GEOMETRY, context=True)
    rows = sampler.choose(4, np.random.default_rng(0))
    tasks = sampler.gather(rows)
    vectors = hashed_names(pack.class_names)
    for t in range(4):
        classes = {int(np.searchsorted(pack.class_offsets, row, "right")) - 1 for row in rows[t]}
        assert len(classes) == 3
        np.testing.assert_allclose(tasks.context[t], vectors[sorted(classes)].mean(0), atol=1e-6)
    assert TaskSampler(pack, "train", GEOMETRY).gather(rows).context is None


def test_a_context_stays_with_its_tasks():
    images = torch.zeros(3, 6, 1, 8, 8, dtype=torch.uint8)
    tasks = TaskBatch(images, GEOMETRY, torch.arange(6.0).view(3, 2))
    assert tasks[1:].context.tolist() == [[2, 3], [4, 5]]
    assert TaskBatch.concatenate([tasks[2:], tasks[:1]]).context.tolist() == [[4, 5], [0, 1]]
    assert tasks.to("cpu").context is not None
    assert TaskBatch.concatenate([tasks, TaskBatch(images, GEOMETRY)]).context is None
    for wrong in (torch.zeros(2, 2), torch.zeros(3), torch.zeros(3, 2, dtype=torch.int64)):
        with pytest.raises(MetadriftError, match=r"context of 3 tasks must be floats \[3, K\]"):
            TaskBatch(images, GEOMETRY, wrong)


@pytest.mark.parametrize("context", [False, True])
def test_domains_that_look_alike_and_speak_differently_are_told_apart(pack, context):
    other = replace(pack, class_names=[f"schraubenzieher{c}" for c in range(18)])
    settings = replace(WITH, context=context)
    features, detector = make_features(settings, Pictures(12, 1)), make_detector(settings)
    rng, found = np.random.default_rng(0), []
    for spoken in (pack, other):
        sampler = TaskSampler(spoken, "train", GEOMETRY, context=context)
        for _ in range(150):
            change = detector.update(features(sampler.draw(2, rng)))
            found += [change.started_at] if change else []
    assert found == [pytest.approx(150, abs=3)] if context else found == []


def test_tasks_without_a_context_are_refused_where_it_shall_be_watched():
    tasks = TaskBatch(torch.zeros(1, 6, 1, 28, 28, dtype=torch.uint8), GEOMETRY)
    with pytest.raises(MetadriftError, match=r"tasks have none: give TaskBatch a context"):
        make_features(WITH, Pictures(12, 1))(tasks)
    with pytest.raises(UsageError, match=r"leave --detection.context out"):
        make_features(replace(WITH, features="paper_z"), Pictures(12, 1))


@pytest.mark.slow
def test_a_run_watches_names_where_asked(tiny_benchmark, tmp_path, capsys):
    words = ["run", "--benchmark", str(tiny_benchmark), "--ways", "3", "--queries", "2"]
    words += ["--learn.filters", "4", "--test-tasks", "2", "--stage-tasks", "0"]
    words += ["--detection.window", "8", "--detection.burn-in", "20"]
    for name in ("plain", "named"):
        more = ["--detection.context"] if name == "named" else []
        assert main([*words, "--out", str(tmp_path), "--name", name, *more]) == 0
    plain, named = ((tmp_path / name / "metrics.jsonl").read_text() for name in ("plain", "named"))
    assert plain != named
    assert "context = true" in (tmp_path / "named" / "config.toml").read_text()
