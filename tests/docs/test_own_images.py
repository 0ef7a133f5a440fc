"""The tutorial with one's own pictures, command by command as the page has them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metadrift.storage.reading import read_json

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial-own-images.md").read_text(encoding="utf-8")
COMMAND = Path(sys.executable).parent / "metadrift"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Pictures of two domains, 15 classes of 5 each, and three new ones of an owl."""
    rng = np.random.default_rng(0)
    named = {"porch": ["fox", "cat"], "yard": ["owl", "hedgehog"]}
    for ground, (domain, names) in zip((70, 180), named.items(), strict=True):
        names += [f"class {n}" for n in range(13)]
        for name in names:
            folder = tmp_path / "pictures" / domain / name
            folder.mkdir(parents=True)
            pattern = np.kron(rng.normal(ground, 40, (4, 4, 3)), np.ones((8, 10, 1)))
            for n in range(5):
                noisy = pattern + rng.normal(0, 15, pattern.shape)
                picture = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
                picture.save(folder / f"{n}.jpg")
            if name == "owl":
                (tmp_path / "new").mkdir()
                for n in range(3):
                    noisy = pattern + rng.normal(0, 15, pattern.shape)
                    picture = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
                    picture.save(tmp_path / "new" / f"{n}.jpg")
    return tmp_path


def test_the_five_commands_of_the_tutorial_do_what_it_says(home: Path) -> None:
    (stream,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (home / "cameras.toml").write_text(stream, encoding="utf-8")
    commands = [
        line
        for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(commands) == 5
    said = []
    for line in commands:
        words = shlex.split(line)
        assert words[0] == "metadrift"
        done = subprocess.run(
            [COMMAND, *words[1:]],
            cwd=home,
            capture_output=True,
            text=True,
            timeout=300,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        said.append(done.stdout)
    assert "75 images of 15 classes (5 train, 5 val, 5 test)" in said[0]
    assert "run folder: runs/cameras" in said[2]
    summary = read_json(home / "runs" / "cameras" / "summary.json")
    assert set(summary["accuracy"]["per_domain"]) == {"porch", "yard"}
    assert summary["accuracy"]["mean"] > 0.3  # guessing gives 0.2
    assert "changes found: 1 of 1, false alarms: 0" in said[2]
    page = (home / "runs" / "cameras" / "report.html").read_text(encoding="utf-8")
    assert "porch" in page
    assert "yard" in page
    assert len(said[4].splitlines()) == 3
    assert all("owl" in line and "%" in line for line in said[4].splitlines())


def test_a_run_says_before_it_starts_that_its_stays_are_too_short_to_be_seen(home: Path) -> None:
    (stream,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (home / "cameras.toml").write_text(stream, encoding="utf-8")
    for domain in ("porch", "yard"):
        words = ["data", "import", "folder", f"pictures/{domain}", "--out", "packs", "--size", "28"]
        subprocess.run([COMMAND, *words], cwd=home, capture_output=True, check=True)
    words = ["run", "--benchmark", "cameras.toml", "--name", "cameras", "--learn.filters", "4"]
    words += ["--queries", "3", "--test-tasks", "1", "--stage-tasks", "0"]
    done = subprocess.run([COMMAND, *words], cwd=home, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "note: a stay of 60 steps is short for a detector with a window of 50" in said
    assert "--detection.window 15 --detection.burn-in 45 needs about 45" in said
