"""Example tasks come from a real checkpoint."""

import base64
import io

import pytest
from PIL import Image

from metadrift.report.examples import examples_of
from metadrift.report.make import make_report
from metadrift.report.subject import read_subject
from metadrift.runs.config import LearnerConfig, RunConfig
from metadrift.runs.loop import start


@pytest.fixture(scope="module")
def run(tiny_benchmark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "r"
    config = RunConfig(
        method="m2d3-pets",
        benchmark=str(tiny_benchmark),
        queries=3,
        test_tasks=5,
        stage_tasks=5,
        log_every=5,
        variance_every=40,
        learn=LearnerConfig(filters=4),
    )
    start(config, folder, quiet=True)
    return folder


def test_a_task_of_each_domain_is_shown_with_its_answers(run):
    (read,) = read_subject(run).runs
    examples = examples_of(read)
    assert [example.domain for example in examples] == ["dark", "middle", "bright"]
    for example in examples:
        assert len(example.support) == 5
        assert all(query.right == (query.truth == query.answer) for query in example.queries)
        png = base64.b64decode(example.support[0].removeprefix("data:image/png;base64,"))
        with Image.open(io.BytesIO(png)) as image:
            assert image.size == (12, 12)


def test_the_page_of_a_real_run_has_every_part(run):
    text = make_report(run)[0].read_text(encoding="utf-8")
    assert "Tasks that were right and wrong" in text
    assert "Measured with exact gradients" in text
    assert "What the memory holds" in text
    without = make_report(run, examples=False)[0].read_text(encoding="utf-8")
    assert "Tasks that were right and wrong" not in without


def test_no_checkpoint_means_no_examples(run):
    (read,) = read_subject(run).runs
    (run / "checkpoints").rename(run / "moved")
    try:
        assert examples_of(read) == []
    finally:
        (run / "moved").rename(run / "checkpoints")
