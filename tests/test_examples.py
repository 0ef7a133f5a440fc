"""Kinds of examples: pictures and arrays, in packs, tasks, memory and streams."""

import json

import numpy as np
import pytest
import torch

from metadrift import ContinualMetaLearner
from metadrift.data.pack import open_pack, write_pack
from metadrift.data.sampler import TaskSampler
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Arrays, Pictures, common_kind, kind_of_table
from metadrift.memory import Buffer
from metadrift.replay import Shift
from metadrift.streams.manifest import ManifestStream
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(2, 1, 2)


def pack_of(path, shape=(4,), dtype=np.float32, classes=3):
    rng = np.random.default_rng(0)
    rows = [(f"c{c}", "train", (rng.random((5, *shape)) + c).astype(dtype)) for c in range(classes)]
    return open_pack(write_pack(path, "p", rows, source="s", licence="l"))


@pytest.mark.parametrize("kind", [Pictures(8), Pictures(4, 1), Arrays((2, 3), "float16")])
def test_a_kind_comes_back_from_its_table(kind):
    assert kind_of_table(kind.as_table()) == kind
    assert kind.blank(1, 2).shape == (1, 2, *kind.shape)


@pytest.mark.parametrize(("shape", "dtype"), [((4,), np.float32), ((2, 3), np.float16)])
def test_arrays_are_packed_drawn_and_stored_as_they_are(tmp_path, shape, dtype):
    pack = pack_of(tmp_path / "p", shape, dtype)
    pack.verify()
    assert pack.kind == Arrays(shape, np.dtype(dtype).name)
    assert {file.name for file in pack.path.iterdir()} == {"pack.json", "examples.npy"}
    sampler = TaskSampler(pack, "train", GEOMETRY)
    rows = sampler.choose(3, np.random.default_rng(1))
    tasks = sampler.gather(rows)
    np.testing.assert_array_equal(tasks.examples.numpy(), pack.examples[rows])
    buffer = Buffer(2, 3, GEOMETRY, pack.kind)
    buffer.put(0, tasks)
    assert torch.equal(buffer.get([0]).examples, tasks.examples)
    again = Buffer(2, 3, GEOMETRY, pack.kind)
    again.load_state_dict(buffer.state_dict())
    assert torch.equal(again.get([0]).examples, tasks.examples)


def test_what_only_pictures_have_is_refused_by_name(tmp_path):
    pack = pack_of(tmp_path / "p")
    with pytest.raises(UsageError, match=r"image size of pack 'p' is for pictures, .* float32 vec"):
        _ = pack.image_size
    tasks = TaskSampler(pack, "train", GEOMETRY).draw(1, np.random.default_rng(0))
    with pytest.raises(UsageError, match="for pictures"):
        Shift()(tasks, [np.random.default_rng(0)])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_pack_takes_only_finite_numbers(tmp_path, bad):
    rows = [("c", "train", np.array([[1.0, bad]], np.float32))]
    with pytest.raises(MetadriftError, match="class 'c' holds a number that is NaN or infinite"):
        write_pack(tmp_path / "p", "p", rows, source="", licence="")
    assert not list(tmp_path.iterdir())


def test_a_memory_keeps_its_type():
    tasks = TaskBatch(torch.zeros(1, 6, 4, dtype=torch.float16), GEOMETRY)
    with pytest.raises(MetadriftError, match=r"holds batches float32 .* not float16"):
        Buffer(1, 1, GEOMETRY, Arrays((4,))).put(0, tasks)


def test_domains_of_a_stream_have_one_kind():
    assert common_kind({"a": Pictures(8, 1), "b": Pictures(8, 3)}, "x") == Pictures(8, 3)
    with pytest.raises(MetadriftError, match=r"a: float32 vectors of 3, b: float32 vectors of 4"):
        common_kind({"a": Arrays((3,)), "b": Arrays((4,))}, "x")
    with pytest.raises(MetadriftError, match="a: colour pictures of 8 px, b: float16 arrays"):
        common_kind({"a": Pictures(8), "b": Arrays((3, 8, 8), "float16")}, "x")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_live_learner_of_vectors_goes_on_where_it_was_saved(tmp_path, dtype):
    def batch(step):
        generator = torch.Generator().manual_seed(step)
        rows = torch.rand(1, 6, 4, generator=generator).to(getattr(torch, dtype))
        return TaskBatch(rows, GEOMETRY)

    def model():
        return ContinualMetaLearner(geometry=GEOMETRY, example=Arrays((4,), dtype), memory=3)

    whole, half = model(), model()
    for step in range(6):
        whole.observe(batch(step))
    for step in range(3):
        half.observe(batch(step))
    again = ContinualMetaLearner.load(half.save(tmp_path / "saved"))
    assert again.example == Arrays((4,), dtype)
    for step in range(3, 6):
        again.observe(batch(step))
    for a, b in zip(whole.learner.parameters(), again.learner.parameters(), strict=True):
        assert torch.equal(a, b)
    answer = again.classify({"a": np.zeros((2, 4)), "b": np.ones((1, 4))}, np.ones((3, 4)))
    assert answer.names == ["b"] * 3
    with pytest.raises(MetadriftError, match="brought examples"):
        again.observe(TaskBatch(torch.zeros(1, 6, 5), GEOMETRY))
    with pytest.raises(UsageError, match=r"class 'a' has the shape \[2, 3\]"):
        again.classify({"a": np.zeros((2, 3)), "b": np.ones((1, 4))}, np.ones((3, 4)))


def test_a_manifest_of_vectors_gives_tasks(tmp_path):
    task = {"support": {"a": [[1, 2]], "b": [[3, 4]]}, "query": {"a": [[5, 6]], "b": [[7, 8.5]]}}
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(task) + "\n" + json.dumps(task).replace("8.5", "true, 1") + "\n")
    stream = ManifestStream(file, TaskGeometry(2, 1, 1), tasks_per_step=1, example=(2,))
    assert next(stream).examples.tolist() == [[[1, 2], [3, 4], [5, 6], [7, 8.5]]]
    with pytest.raises(MetadriftError, match="line 2: an example must be finite numbers"):
        next(stream)
    file.write_text(json.dumps({"support": {"a": ["x.png"]}, "query": {}}) + "\n")
    with pytest.raises(MetadriftError, match="must map each class to a list of lists of numbers"):
        next(ManifestStream(file, TaskGeometry(2, 1, 1), tasks_per_step=1, example=(2,)))


def test_a_learner_without_weights_is_refused():
    with pytest.raises(UsageError, match="no weights to learn: take --learner ridge or anil"):
        ContinualMetaLearner(geometry=GEOMETRY, example=(4,), backbone="identity")
    with pytest.raises(UsageError, match="either image_size= or example="):
        ContinualMetaLearner(geometry=GEOMETRY)
