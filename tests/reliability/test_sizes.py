"""Numbers that no machine has room for: one sentence, and no run is begun."""

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--memory.capacity", 10**18, "there is no room for"),
        ("--learn.filters", 10**9, "there is not enough memory"),
        ("--detection.window", 10**30, "at most 10^9 batches"),
        ("--ways", 10**9, "classes"),
    ],
)
def test_a_run_that_no_machine_has_room_for_gets_one_sentence(
    option, value, says, config, driver, tmp_path
):
    words = ["run", "--benchmark", config.benchmark, "--ways", 3, "--queries", 2]
    words = [*words, option, value, "--out", tmp_path, "--name", "run", "--json"]
    code, said = driver(tmp_path, *words, sabotage=["little_memory", 2**32], limit=60)
    assert code in (1, 2), said
    assert "Traceback" not in said
    assert says in said
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize("size", [0, -5, 60_000])
def test_a_size_that_no_picture_has_is_refused(size, driver, tmp_path):
    code, said = driver(tmp_path, "run", "--size", size, "--out", tmp_path, "--name", "run")
    assert code in (1, 2)
    assert "pixels wide" in said
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_window_that_no_machine_has_room_for_is_refused_by_detect(driver, tmp_path):
    np.save(tmp_path / "v.npy", np.zeros((50, 2)))
    code, said = driver(tmp_path, "detect", tmp_path / "v.npy", "--window", 10**30)
    assert code == 2
    assert "at most 10^9 batches" in said
