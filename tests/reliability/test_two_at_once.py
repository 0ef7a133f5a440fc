"""Two programs at once: one wins and the other says so; what a dead one left is taken over."""

import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from PIL import Image

from metadrift.data.pack import open_pack, write_pack
from metadrift.errors import MetadriftError
from metadrift.runs.loop import go_on
from metadrift.storage.lock import lock
from tiny_runs import assert_same_run


def test_a_second_program_in_a_runs_folder_is_told_who_has_it(config, driver, tmp_path):
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "run", ["killed_in_step", 5])[0] == -9
    with lock(tmp_path / "run" / ".lock", "held"):
        code, said = driver.resume(tmp_path, "run")
    assert code == 1
    assert f"run is being run by process {os.getpid()}; wait until it has ended" in said
    assert len(said.strip().splitlines()) == 1
    assert driver.resume(tmp_path, "run")[0] == 0
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_the_lock_of_a_dead_run_is_taken_over_and_a_finished_run_has_none(config, driver, tmp_path):
    assert driver.run(tmp_path, config, "run", ["killed_in_step", 5])[0] == -9
    left = int((tmp_path / "run" / ".lock").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(left, 0)
    assert driver.resume(tmp_path, "run")[0] == 0
    assert not (tmp_path / "run" / ".lock").exists()


def test_a_run_killed_before_it_wrote_anything_leaves_a_folder_that_can_be_used(
    config, driver, tmp_path
):
    assert driver.run(tmp_path, config, "run", ["killed_in_fsync", 1])[0] == -9
    left = {path.name[:16] for path in (tmp_path / "run").iterdir()}
    assert left == {".lock", ".benchmark.toml."}
    assert driver.run(tmp_path, config, "run")[0] == 0
    assert not [path for path in (tmp_path / "run").iterdir() if path.name[0] == "."]


def test_of_two_programs_that_take_turns_none_ever_holds_the_lock_with_the_other(tmp_path):
    code = (
        "import sys, time, pathlib; from metadrift.storage.lock import lock\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "for _ in range(40):\n"
        "    with lock(home / '.lock', 'held', patience=60):\n"
        "        (home / 'inside').mkdir()\n"
        "        (home / 'inside').rmdir()\n"
    )
    asking = [subprocess.Popen([sys.executable, "-c", code, tmp_path]) for _ in range(3)]
    assert [process.wait(timeout=120) for process in asking] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_waited_for_as_long_as_asked(tmp_path):
    with lock(tmp_path / ".lock", "it is held"):
        start = time.monotonic()
        with (
            pytest.raises(MetadriftError, match=f"it is held by process {os.getpid()}"),
            lock(tmp_path / ".lock", "it is held", patience=0.3),
        ):
            pass
        assert time.monotonic() - start >= 0.3


def test_a_run_waits_for_its_folder_and_then_goes_on_to_the_same_bytes(config, driver, tmp_path):
    assert driver.run(tmp_path, config, "whole")[0] == 0
    assert driver.run(tmp_path, config, "run", ["killed_in_step", 5])[0] == -9
    held = ExitStack()
    held.enter_context(lock(tmp_path / "run" / ".lock", "held"))
    began = time.monotonic()
    threading.Timer(0.5, held.close).start()
    go_on(tmp_path / "run", quiet=True, patience=60)
    assert 0.5 <= time.monotonic() - began < 30
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.fixture
def pets(tmp_path):
    for name in ("cat", "dog", "fox"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for n in range(3):
            Image.new("RGB", (9, 9), (40 * n, 9, 9)).save(tmp_path / "pets" / name / f"{n}.png")
    return tmp_path / "pets"


def imported(driver, pets, tmp_path, *more, sabotage=None):
    words = ["data", "import", "folder", pets, "--out", tmp_path / "data", "--size", 8]
    return driver(tmp_path, *words, "--workers", 1, *more, sabotage=sabotage)


def test_a_second_import_of_the_same_pack_is_told_who_writes_it(driver, pets, tmp_path):
    (tmp_path / "data").mkdir()
    with lock(tmp_path / "data" / ".pets.lock", "held"):
        code, said = imported(driver, pets, tmp_path)
    assert code == 1
    assert f"pets is being written by process {os.getpid()}" in said
    assert imported(driver, pets, tmp_path)[0] == 0


def test_what_a_killed_import_left_is_removed_by_the_next(driver, pets, tmp_path):
    assert imported(driver, pets, tmp_path, sabotage=["killed_in_fsync", 1])[0] == -9
    left = sorted(path.name[:10] for path in (tmp_path / "data").iterdir())
    assert left == [".pets.lock", ".pets.new."]
    (tmp_path / "data" / ".pets.new.zoo").mkdir()
    (tmp_path / "data" / ".pets.zoo.new.x").mkdir()  # of another pack, which is being written
    assert imported(driver, pets, tmp_path)[0] == 0
    open_pack(tmp_path / "data" / "pets").verify()
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert names == {"pets", ".pets.zoo.new.x"}


def test_an_import_killed_between_its_two_renames_loses_no_pack(driver, pets, tmp_path):
    assert imported(driver, pets, tmp_path)[0] == 0
    was = open_pack(tmp_path / "data" / "pets").sha256
    killed = imported(driver, pets, tmp_path, "--replace", sabotage=["killed_after_the_rename", 2])
    assert killed[0] == -9
    assert not (tmp_path / "data" / "pets").exists()
    rows = [("cat", "train", np.zeros((1, 8, 8, 1), np.uint8))]
    with pytest.raises(MetadriftError, match="exists already"):
        write_pack(tmp_path / "data" / "pets", "pets", rows, source="x", licence="x")
    assert open_pack(tmp_path / "data" / "pets").sha256 == was
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["pets"]
