"""The nearest-centroid accuracy of hand-made packs, and the command that prints it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from metadrift.cli import main
from metadrift.data.difficulty import nearest_centroid
from metadrift.data.pack import Pack, Split, open_pack, write_pack
from metadrift.errors import MetadriftError
from metadrift.tasks import TaskGeometry

GEOMETRY = TaskGeometry(ways=5, shots=5, queries=10)


def hand_made(folder: Path, spread: int, split: Split = "test") -> Pack:
    """Eight classes of flat grey, 30 levels apart, with noise of `spread` levels."""
    rng = np.random.default_rng(0)
    rows = []
    for c in range(8):
        noise = rng.integers(-spread, spread + 1, (20, 8, 8, 1))
        rows.append((f"grey-{c}", split, np.clip(20 + 30 * c + noise, 0, 255).astype(np.uint8)))
    return open_pack(write_pack(folder / "greys", "greys", rows, source="test", licence="CC0"))


def test_classes_that_differ_in_grey_are_all_named(tmp_path: Path) -> None:
    found = nearest_centroid(hand_made(tmp_path, 2), GEOMETRY, 20, np.random.default_rng(1))
    assert (found.accuracy, found.ci95, found.tasks) == (1.0, 0.0, 20)


def test_classes_of_the_same_noise_are_guessed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows: list[tuple[str, Split, np.ndarray]] = [
        (f"noise-{c}", "test", rng.integers(0, 256, (20, 8, 8, 1), np.uint8)) for c in range(8)
    ]
    pack = open_pack(write_pack(tmp_path / "noise", "noise", rows, source="test", licence="CC0"))
    found = nearest_centroid(pack, GEOMETRY, 200, np.random.default_rng(1))
    assert found.accuracy == pytest.approx(0.2, abs=0.03)
    assert 0.003 < found.ci95 < 0.02


def test_the_rule_is_the_nearest_mean_and_not_the_nearest_image(tmp_path: Path) -> None:
    # One image of each class is asked, the other three make the mean.
    def flat(*greys: int) -> np.ndarray:
        return np.stack([np.full((4, 4, 1), grey, np.uint8) for grey in greys])

    rows: list[tuple[str, Split, np.ndarray]] = [
        ("a", "test", flat(100, 100, 100, 128)),
        ("b", "test", flat(128, 192, 160, 160)),
    ]
    pack = open_pack(write_pack(tmp_path / "p", "p", rows, source="test", licence="CC0"))
    rng = np.random.default_rng(0)
    found = nearest_centroid(pack, TaskGeometry(2, 3, 1), 400, rng)
    # b's 128 is 43 from its own mean (171) and at most 28 from a's: wrong, one time in four.
    # a's 128 is 28 from its own mean (100) and 21 from b's when b is asked 192 (149): wrong, one
    # time in sixteen. All else is right. The nearest image would be wrong far more often.
    assert found.accuracy == pytest.approx(1 - (1 / 4 + 1 / 16) / 2, abs=0.03)


def test_the_same_seed_gives_the_same_number(tmp_path: Path) -> None:
    pack = hand_made(tmp_path, 60)
    first, again, other = (
        nearest_centroid(pack, GEOMETRY, 30, np.random.default_rng(s)).accuracy for s in (3, 3, 4)
    )
    assert first == again != other


def test_a_split_without_classes_is_an_error_that_counts_them(tmp_path: Path) -> None:
    with pytest.raises(MetadriftError, match="0 val classes"):
        nearest_centroid(hand_made(tmp_path, 2), GEOMETRY, 5, np.random.default_rng(0), "val")


def test_one_task_has_no_interval(tmp_path: Path) -> None:
    with pytest.raises(MetadriftError, match="at least 2 tasks"):
        nearest_centroid(hand_made(tmp_path, 2), GEOMETRY, 1, np.random.default_rng(0))


def test_the_command_prints_a_table_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(hand_made(tmp_path, 2).path)
    assert main(["data", "difficulty", path, "--tasks", "5"]) == 0
    assert "greys           100.0 ± 0.0 %" in capsys.readouterr().out
    assert main(["data", "difficulty", path, "--tasks", "5", "--shots", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["shots"] == 1
    assert result["packs"] == [{"name": "greys", "accuracy": 1.0, "ci95": 0.0, "tasks": 5}]


def test_a_wrong_name_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("METADRIFT_DATA", str(tmp_path))
    assert main(["data", "difficulty", "sketchez"]) == 1
    assert "there is no pack 'sketchez'" in capsys.readouterr().err
