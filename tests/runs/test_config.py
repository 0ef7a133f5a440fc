from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadrift.errors import MetadriftError
from metadrift.methods.config import ReplayConfig, TransformConfig
from metadrift.runs.config import RunConfig, from_toml, load_config, to_toml


@settings(deadline=None)
@pytest.mark.slow
@given(
    st.builds(
        RunConfig,
        method=st.sampled_from(["sequential", "joint", "m2d3-pets"]),
        shots=st.integers(1, 9),
        lr=st.floats(1e-6, 1.0),
        scale=st.floats(0.001, 1.0),
        benchmark=st.text(min_size=1),
        data=st.none() | st.just(Path("some where/else")),
        replay=st.builds(ReplayConfig, weighted=st.booleans(), batches=st.integers(1, 4)),
        fresh=st.sampled_from(["all", "replay", "off"]),
        transform=st.builds(TransformConfig, shift=st.floats(0, 0.4), turn=st.floats(0, 1)),
    )
)
def test_a_configuration_survives_toml(config):
    assert from_toml(to_toml(config)) == config


def test_what_is_left_out_keeps_its_default():
    assert from_toml("shots = 5\n[memory]\nbeta = 0\n") == replace(
        RunConfig(), shots=5, memory=replace(RunConfig().memory, beta=0.0)
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shots = ", "cannot be read as TOML"),
        ("metod = 'mir'", "there is no setting 'metod'; did you mean 'method'"),
        ("[memory]\ncolour = 1", "memory: there is no setting 'colour'"),
        ("shots = 'many'", 'shots must be a whole number, not "many"'),
        ("shots = true", "shots must be a whole number, not true"),
        ("method = 'magic'", "there is no method 'magic'; there are sequential"),
        ("memory = 3", "memory: rule must be text in quotes"),
        ("shots = 0", "--shots must be at least 1"),
        ("scale = 2.0", "--scale must be above 0"),
        ("lr = nan", "lr must be a finite number, not NaN"),
    ],
)
def test_a_wrong_configuration_gets_one_sentence(text, says):
    with pytest.raises(MetadriftError, match=says):
        from_toml(text)


def test_paths_in_a_file_count_from_its_place(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text("benchmark = 'mine.toml'\ndata = 'packs'")
    config = load_config(file)
    assert (config.benchmark, config.data) == (str(tmp_path / "mine.toml"), tmp_path / "packs")
    file.write_text("benchmark = 'builtin'\ndata = '/packs'")
    config = load_config(file)
    assert (config.benchmark, config.data) == ("builtin", Path("/packs"))


@settings(deadline=None)
@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_is_a_configuration_or_a_clear_error(text):
    try:
        config = from_toml(text)
    except MetadriftError:
        return
    assert from_toml(to_toml(config)) == config
