import contextlib
import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from metadrift.errors import MetadriftError
from metadrift.streams.manifest import ManifestStream
from metadrift.tasks import TaskGeometry

GEOMETRY = TaskGeometry(ways=2, shots=1, queries=1)


@pytest.fixture
def folder(tmp_path):
    for value in range(8):
        Image.fromarray(np.full((12, 12), value * 30, np.uint8)).save(tmp_path / f"{value}.png")
    return tmp_path


def task(support, query):
    return json.dumps({"support": support, "query": query})


def good(a, b, c, d):
    return task({"x": [f"{a}.png"], "y": [f"{b}.png"]}, {"x": [f"{c}.png"], "y": [f"{d}.png"]})


def stream(folder, text, **options):
    (folder / "tasks.jsonl").write_text(text)
    options = {"image_size": 8, "channels": 1, "tasks_per_step": 1} | options
    return ManifestStream(folder / "tasks.jsonl", GEOMETRY, **options)


def values(batch):
    return (batch.images[:, :, 0, 0, 0] // 30).tolist()


def test_each_line_becomes_a_task_with_support_before_query(folder):
    batches = list(stream(folder, good(0, 1, 2, 3) + "\n\n" + good(4, 5, 6, 7) + "\n"))
    assert [values(batch) for batch in batches] == [[[0, 1, 2, 3]], [[4, 5, 6, 7]]]
    assert batches[0].images.shape == (1, 4, 1, 8, 8)


def test_lines_are_gathered_into_steps_and_an_unfinished_step_is_left_out(folder):
    text = "\n".join([good(0, 1, 2, 3)] * 5)
    assert [len(batch) for batch in stream(folder, text, tasks_per_step=2)] == [2, 2]


def test_a_manifest_goes_on_exactly_from_its_state(folder):
    text = "\n".join(good(*order) for order in [(0, 1, 2, 3), (4, 5, 6, 7), (7, 6, 5, 4)])
    first = stream(folder, text)
    next(first)
    second = stream(folder, text)
    second.load_state_dict(first.state_dict())
    assert [values(batch) for batch in second] == [[[4, 5, 6, 7]], [[7, 6, 5, 4]]]


def test_only_what_is_asked_for_is_read(folder):
    batch = next(stream(folder, good(0, 1, 2, 3) + "\n" + "this line is never reached"))
    assert values(batch) == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "an object"),
        ('{"support": {}}', '"query" must map'),
        (task({"x": ["0.png"]}, {"x": ["1.png"]}), "1 classes, but the stream has 2 ways"),
        (task({"x": ["0.png"], "y": []}, {"x": ["1.png"], "y": ["2.png"]}), "class 'y' has 0 supp"),
        (task({"x": ["0.png"], "y": ["1.png"]}, {"x": ["2.png"], "z": ["3.png"]}), "same classes"),
        (good(0, 1, 2, "absent"), "image 'absent.png' cannot be read"),
        (good(0, 1, 2, 0), "an image appears twice"),
        (task({"x": "0.png", "y": ["1.png"]}, {"x": [], "y": []}), '"support" must map'),
    ],
)
def test_a_bad_line_is_reported_with_its_number(folder, line, says):
    reader = stream(folder, good(0, 1, 2, 3) + "\n" + line + "\n")
    next(reader)
    with pytest.raises(MetadriftError, match=r"tasks\.jsonl, line 2: .*" + says):
        next(reader)


def test_a_damaged_image_is_reported_with_its_line(folder):
    (folder / "3.png").write_bytes(b"no image")
    with pytest.raises(MetadriftError, match=r"line 1: image '3\.png' cannot be used"):
        next(stream(folder, good(0, 1, 2, 3)))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name here")
@pytest.mark.parametrize(
    "path", ["/dev/zero", "pipe", "link", "..", "../secret", "a\0b", "x" * 5000]
)
def test_a_path_to_what_is_no_image_is_refused_and_not_waited_for(path, tmp_path, folder):
    (folder / "in").mkdir()
    for value in range(3):
        (folder / f"{value}.png").rename(folder / "in" / f"{value}.png")
    (tmp_path / "secret").write_text("a secret")
    os.mkfifo(folder / "in" / "pipe")
    (folder / "in" / "link").symlink_to("/dev/zero")
    line = task({"x": [path], "y": ["0.png"]}, {"x": ["1.png"], "y": ["2.png"]})
    with pytest.raises(MetadriftError, match=r"line 1: image .* cannot be") as refused:
        next(stream(folder / "in", line))
    assert "a secret" not in str(refused.value)


def test_bad_lines_can_be_skipped_and_are_listed(folder):
    reader = stream(folder, good(0, 1, 2, 3) + "\noops\n" + good(4, 5, 6, 7), on_bad="skip")
    assert len(list(reader)) == 2
    assert len(reader.bad_lines) == 1
    assert "line 2" in reader.bad_lines[0]


def test_a_missing_manifest_is_named(tmp_path):
    with pytest.raises(MetadriftError, match="there is no task manifest"):
        ManifestStream(tmp_path / "none.jsonl", GEOMETRY)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda b: b.decode("latin1")))
def test_any_line_is_a_task_or_a_clear_error(folder, text):
    found = []
    with contextlib.suppress(MetadriftError):
        for batch in stream(folder, f"{good(0, 1, 2, 3)}\n{text}"):
            found.append(values(batch))
    assert found == [[[0, 1, 2, 3]]]  # the good line before it is read
