"""`metadrift data ...` through the installed command."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from PIL import Image

COMMAND = Path(sys.executable).parent / "metadrift"


def metadrift(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
    )


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """20 classes of 3 images, and one file that is none."""
    folder = tmp_path / "pets"
    for c in range(20):
        for n in range(3):
            path = folder / f"pet {c:02d}" / f"{n}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (30, 20), (c * 10, n * 50, 99)).save(path)
    (folder / "pet 03" / "9.jpg").write_text("not a photograph")
    return folder


def test_an_import_says_which_splits_are_too_small_for_five_way_tasks(tmp_path: Path) -> None:
    for c in range(9):
        path = tmp_path / "pets" / f"pet {c}" / "1.png"
        path.parent.mkdir(parents=True)
        Image.new("RGB", (30, 20), (c * 10, 50, 99)).save(path)
    done = metadrift("data", "import", "folder", tmp_path / "pets", "--out", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert "too few train" not in done.stdout
    assert "note: too few val classes for 5-way tasks: 1; a task needs 2" in done.stdout
    assert "note: too few test classes for 5-way tasks: 2; use --ways 2 there" in done.stdout


def test_a_folder_is_imported_listed_verified_and_shown(pets: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = metadrift("data", "import", "folder", pets, "--out", data, "--size", 28)
    assert done.returncode == 0, done.stderr
    assert "60 images of 20 classes (10 train, 5 val, 5 test)" in done.stdout
    assert "images per second" in done.stdout
    assert "1 file could not be read" in done.stdout
    assert "pet 03/9.jpg: not an image we know" in done.stdout
    assert f"pack: {data / 'pets'}" in done.stdout

    listed = json.loads(metadrift("data", "list", "--data", data, "--json").stdout)
    assert [pack["name"] for pack in listed["packs"]] == ["pets"]
    assert listed["packs"][0]["classes"] == {"train": 10, "val": 5, "test": 5}
    assert "pets" in metadrift("data", "list", METADRIFT_DATA=str(data)).stdout

    assert metadrift("data", "verify", "pets", "--data", data).returncode == 0
    sheet = tmp_path / "sheet.png"
    shown = metadrift(
        "data", "preview", "pets", "--data", data, "--out", sheet, "--classes", 4, "--images", 3
    )
    assert shown.returncode == 0, shown.stderr
    with Image.open(sheet) as picture:
        assert picture.size == (200 + 3 * 58 + 2, 4 * 58 + 2)

    images = data / "pets" / "images.npy"
    content = bytearray(images.read_bytes())
    content[500] ^= 255
    images.write_bytes(content)
    damaged = metadrift("data", "verify", "--data", data, "--json")
    assert damaged.returncode == 1
    assert "sha256" in json.loads(damaged.stdout)["damaged"][0]


def test_the_result_is_one_json_object(pets: Path, tmp_path: Path) -> None:
    words = ["data", "import", "folder", pets, "--out", tmp_path, "--name", "p", "--json"]
    report = json.loads(metadrift(*words).stdout)
    assert report["images"] == 60
    assert sum(report["classes"].values()) == 20
    assert report["unreadable"] == [{"name": "pet 03/9.jpg", "reason": "not an image we know"}]
    assert Path(report["path"]) == tmp_path / "p"


def test_strict_fails_and_leaves_nothing(pets: Path, tmp_path: Path) -> None:
    done = metadrift("data", "import", "folder", pets, "--out", tmp_path / "data", "--strict")
    assert done.returncode == 1
    assert "pet 03/9.jpg cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "data").iterdir()) == []


def test_an_existing_pack_is_replaced_only_when_asked(pets: Path, tmp_path: Path) -> None:
    words = ["data", "import", "folder", pets, "--out", tmp_path / "data", "--size", 8]
    assert metadrift(*words).returncode == 0
    again = metadrift(*words)
    assert again.returncode == 1
    assert "--replace" in again.stderr
    assert metadrift(*words, "--replace").returncode == 0


@pytest.mark.parametrize(("sent", "workers"), [(signal.SIGINT, 2), (signal.SIGTERM, 1)])
def test_a_stopped_import_leaves_nothing(tmp_path: Path, sent: int, workers: int) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (400, 400)).save(picture, "PNG")
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for n in range(4000):
            archive.writestr(f"class {n % 20}/{n}.png", picture.getvalue())
    data = tmp_path / "data"
    words = ["data", "import", "folder", tmp_path / "many.zip", "--out", data]
    process = subprocess.Popen([COMMAND, *words, "--workers", str(workers)], stderr=subprocess.PIPE)
    for _ in range(600):
        if data.is_dir() and any(file.stat().st_size > 10**6 for file in data.glob(".*/*.npy")):
            break
        time.sleep(0.05)
    process.send_signal(sent)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert list(data.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["import", "folder", "nowhere"], 1, "there is no file or folder nowhere"),
        (["import", "cub", ".", "--rotations"], 2, "--rotations is not for cub"),
        (["import", "cub", ".", "--size", "0"], 2, "--size must be between"),
        (["import", "cub", ".", "--name", "../up"], 2, "cannot be a folder's name"),
        (["import", "cub", ".", "--per-class", "0"], 2, "--per-class must be at least 1"),
        (["import", "nonsense", "."], 2, "nonsense"),
        (["verify", "cub"], 1, ""),
        (["preview", "cub"], 1, "`metadrift data import cub SOURCE --out"),
        (["preview", "cub", "--images", "0"], 2, "--images must be at least 1"),
    ],
)
def test_wrong_use_gets_a_sentence_and_the_right_code(
    tmp_path: Path, words: list[str], code: int, message: str
) -> None:
    done = metadrift("data", *words, METADRIFT_DATA=str(tmp_path))
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_help_says_what_the_options_are_for() -> None:
    text = metadrift("data", "import", "--help").stdout
    for word in ("CUB_200_2011.tgz", "--crop-to-box", "--keep-unrecognized", "METADRIFT_DATA"):
        assert word in text
