import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from metadrift.runs.checkpoint import checkpoints
from metadrift.runs.config import to_toml
from metadrift.runs.loop import go_on

pytestmark = pytest.mark.slow

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def child(parent, rank):
    """The id of the process that torchrun started as this rank."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            above = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            mine = f"\0RANK={rank}\0" in "\0" + (folder / "environ").read_text()
        except OSError:
            continue
        if above == parent and mine:
            return int(folder.name)
    raise AssertionError("torchrun has no such process")


def test_a_killed_process_ends_the_run_and_its_checkpoint_goes_on(config, two_domains, tmp_path):
    lasting = replace(
        config, benchmark=two_domains(120, 60), checkpoint_every=10, keep=2, test_tasks=4
    )
    (tmp_path / "config.toml").write_text(to_toml(lasting))
    words = ["-m", "metadrift", "run", "--config", tmp_path / "config.toml", "--out", tmp_path]
    process = subprocess.Popen(
        [*TORCHRUN, *words, "--name", "run"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    run = tmp_path / "run"
    end = time.monotonic() + 180
    while not checkpoints(run / "checkpoints"):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(child(process.pid, 1), signal.SIGKILL)
    began = time.monotonic()
    _, said = process.communicate(timeout=120)
    assert time.monotonic() - began < 60
    assert process.returncode != 0
    assert "process 0 of 2 (they count from 0) has lost the others" in said
    assert "metadrift resume" in said
    assert not (run / "summary.json").exists()
    assert go_on(run, quiet=True)["steps"] == 180
