import json
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from metadrift.errors import MetadriftError
from metadrift.runs.checkpoint import (
    FORMAT,
    checkpoints,
    load_checkpoint,
    remove_leftovers,
    save_checkpoint,
    sums,
)

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
states = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)


@settings(deadline=None)
@pytest.mark.slow
@given(states)
def test_any_plain_state_comes_back_as_it_was(tmp_path_factory, state):
    folder = tmp_path_factory.mktemp("state")
    assert load_checkpoint(save_checkpoint(folder, 1, state)) == state


def test_tensors_arrays_and_generators_come_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(3)
    rng.random(5)
    state = {
        "weights": {"a.b": torch.randn(3, 2), "empty": torch.zeros(0), "scalar": torch.tensor(2.5)},
        "array": np.arange(6, dtype=np.int64).reshape(2, 3),
        "nothing": np.zeros((0, 4), np.uint8),
        "half": np.ones(3, np.float16),
        "rng": rng.bit_generator.state,
    }
    back = load_checkpoint(save_checkpoint(tmp_path, 9, state))
    for name, tensor in state["weights"].items():
        assert torch.equal(back["weights"][name], tensor)
        assert back["weights"][name].shape == tensor.shape
    for name in ("array", "nothing", "half"):
        assert back[name].dtype == state[name].dtype
        assert back[name].shape == state[name].shape
        assert np.array_equal(back[name], state[name])
    again = np.random.default_rng()
    again.bit_generator.state = back["rng"]
    assert again.random() == rng.random()


def test_only_the_newest_are_kept(tmp_path):
    for step in (5, 10, 100, 20):
        save_checkpoint(tmp_path, step, {"step": step}, keep=2)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-20", "step-100"]


def test_what_a_killed_writer_left_is_neither_read_nor_kept(tmp_path):
    save_checkpoint(tmp_path, 3, {"x": 1})
    (tmp_path / ".step-6.abc").mkdir()
    (tmp_path / ".step-6.abc" / "state.json").write_text("{")
    assert [path.name for path in checkpoints(tmp_path)] == ["step-3"]
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["step-3"]


def test_a_write_that_fails_leaves_the_one_before_whole(tmp_path):
    save_checkpoint(tmp_path, 3, {"x": 1})
    with pytest.raises(TypeError, match="cannot hold /bad"):
        save_checkpoint(tmp_path, 4, {"bad": object()})
    assert os.listdir(tmp_path) == ["step-3"]
    assert load_checkpoint(tmp_path / "step-3") == {"x": 1}


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "shard-1.safetensors"])
def test_one_flipped_bit_anywhere_is_noticed(name, tmp_path):
    beside = tmp_path / "beside"
    beside.mkdir()
    save_file({"images": torch.arange(60.0)}, beside / "shard-1.safetensors")
    state = {"weights": torch.arange(40.0), "rng": 2**77 + 3, "names": ["a", "b"]}
    path = save_checkpoint(tmp_path / "c", 3, state, beside=beside)
    assert load_checkpoint(path)["rng"] == 2**77 + 3
    data = (path / name).read_bytes()
    place = data.index(b"151115727451828646838275") if name == "state.json" else len(data) - 9
    place += 3
    (path / name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(MetadriftError, match=f"is damaged: {name} is not as it was written"):
        load_checkpoint(path)


def test_a_state_that_is_none_gets_one_sentence(tmp_path):
    path = save_checkpoint(tmp_path, 3, {"x": 1})
    saved = {"format": FORMAT, "state": 3, "sha256": sums(path, 3)}
    (path / "state.json").write_text(json.dumps(saved))
    with pytest.raises(MetadriftError, match="no state"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("state.json", b"{", "cannot be read as JSON"),
        ("state.json", b"[]", "must hold a JSON object"),
        ("state.json", b'{"format": "other"}', "not a checkpoint"),
        ("state.json", b'{"format": "metadrift-checkpoint/1"}', "/1', and this version .* reads"),
        ("state.json", b'{"format": "metadrift-checkpoint/99"}', "go on with the version that"),
        ("state.json", b'{"format": "metadrift-checkpoint/2"}', "is damaged"),
        ("state.json", b'{"format": "metadrift-checkpoint/2", "sha256": [], "state": {}}', "is da"),
        ("tensors.safetensors", b"", "is damaged"),
        ("tensors.safetensors", b"\x80\x04\x95nonsense", "is damaged"),
        ("tensors.safetensors", None, "tensors.safetensors is missing"),
        ("state.json", None, "state.json is missing"),
    ],
)
def test_a_damaged_checkpoint_gets_one_sentence(tmp_path, name, data, says):
    path = save_checkpoint(tmp_path, 3, {"x": torch.ones(2)})
    if data is None:
        (path / name).unlink()
    else:
        (path / name).write_bytes(data)
    with pytest.raises(MetadriftError, match=says):
        load_checkpoint(path)
