"""The six built-in domains: the same bytes everywhere, made once, however many ask."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL
import pytest

from metadrift.cli import main
from metadrift.data.difficulty import nearest_centroid
from metadrift.data.pack import Pack, open_pack
from metadrift.data.synthetic import glyphs
from metadrift.data.synthetic.draw import BUILTIN, Recipe, draw, draw_elsewhere
from metadrift.data.synthetic.generate import builtin_pack, ensure_builtin
from metadrift.errors import MetadriftError, UsageError
from metadrift.storage.lock import lock
from metadrift.tasks import TaskGeometry

ROOT = Path(__file__).parents[2]
SMALL = Recipe(size=16, classes=5, images=3)
# A plain script that asks for two small packs, with no guard around its main part.
ASK = """
import sys
from metadrift.data.synthetic.generate import ensure_builtin
packs = ensure_builtin(["sketches", "glyphs"], 16, workers=2, folder=sys.argv[1],
                       classes=int(sys.argv[2]), images=3)
print(*(pack.sha256 for pack in packs))
"""


@pytest.fixture(scope="session")
def six() -> list[Pack]:
    """All six at 28 px, in the cache that the whole test run shares."""
    return ensure_builtin()


@pytest.mark.slow
def test_the_full_packs_have_the_sha256_that_the_docs_give(six: list[Pack]) -> None:
    text = (ROOT / "docs" / "builtin.md").read_text(encoding="utf-8")
    given = dict(re.findall(r"^\| (\w+) \|.*`([0-9a-f]{64})`", text, re.MULTILINE))
    tested = dict(re.findall(r"^(numpy|pillow|matplotlib)==(\S+)", _constraints(), re.MULTILINE))
    here = {name: importlib.metadata.version(name) for name in tested}
    assert {pack.name: pack.sha256 for pack in six} == given, (
        f"other bytes than docs/builtin.md says; tested with {tested}, here with {here}. "
        "If a picture was meant to change, raise VERSION and write the new sums into the docs."
    )
    for pack in six:
        pack.verify()


@pytest.mark.slow
def test_every_domain_has_the_classes_images_and_splits_it_promises(six: list[Pack]) -> None:
    assert tuple(pack.name for pack in six) == BUILTIN
    for pack in six:
        assert pack.images.shape == (4000, 28, 28, 1 if pack.name in ("sketches", "glyphs") else 3)
        assert {pack.class_size(c) for c in range(100)} == {40}
        assert [pack.class_split.count(split) for split in ("train", "val", "test")] == [60, 16, 24]
        assert len(set(pack.class_names)) == 100


@pytest.mark.slow
def test_no_image_appears_twice(six: list[Pack]) -> None:
    for pack in six:
        assert len({image.tobytes() for image in pack.images}) == 4000


@pytest.mark.slow
def test_the_domains_lie_between_easy_and_hard_and_far_apart(six: list[Pack]) -> None:
    geometry = TaskGeometry(ways=5, shots=5, queries=10)
    rng = np.random.default_rng(0)
    found = {p.name: 100 * nearest_centroid(p, geometry, 150, rng).accuracy for p in six}
    assert all(25 < accuracy < 75 for accuracy in found.values()), found
    assert max(found.values()) - min(found.values()) > 30, found


@pytest.mark.parametrize("name", BUILTIN)
def test_a_class_depends_on_the_seed_and_its_number_only(name: str) -> None:
    first, second = draw(name, SMALL, [0, 3])
    (alone,) = draw(name, SMALL, [3])
    np.testing.assert_array_equal(second, alone)
    assert not np.array_equal(first, second)
    other_seed = Recipe(SMALL.size, 1, SMALL.classes, SMALL.images)
    assert not np.array_equal(first, draw(name, other_seed, [0])[0])


@pytest.mark.parametrize("name", BUILTIN)
def test_a_class_looks_the_same_at_another_size(name: str) -> None:
    small, large = (
        draw(name, Recipe(size=size, classes=1, images=4), [0])[0].astype(float) / 255
        for size in (28, 84)
    )
    shrunk = large.reshape(4, 28, 3, 28, 3, -1).mean((2, 4))
    error = np.abs(small - shrunk).mean()
    shuffled = np.abs(small - shrunk[::-1]).mean()
    assert error < 0.06
    assert error < 0.5 * shuffled


@pytest.mark.parametrize("name", BUILTIN)
def test_images_of_a_class_are_nearer_to_each_other_than_to_other_classes(name: str) -> None:
    recipe = Recipe(size=28, classes=6, images=12)
    images = np.stack(draw(name, recipe, range(6))).reshape(6, 12, -1).astype(float)
    means = images[:, :6].mean(1)
    far = ((images[:, 6:, None] - means[None, None]) ** 2).mean(-1)
    own = np.mean([far[c, :, c].mean() for c in range(6)])
    assert own < far.mean()
    assert own > 0.1 * far.mean()  # and yet they are not copies


def test_the_workers_number_does_not_change_the_bytes(tmp_path: Path) -> None:
    one, two = (
        ensure_builtin(
            ["badges", "glyphs"], 16, workers=w, folder=tmp_path / str(w), classes=12, images=2
        )
        for w in (1, 2)
    )
    assert [pack.sha256 for pack in one] == [pack.sha256 for pack in two]


def test_a_process_that_cannot_draw_is_reported_in_a_sentence() -> None:
    with pytest.raises(MetadriftError, match=r"drew 'nothing' ended with code 1: ModuleNotFound"):
        draw_elsewhere("nothing", SMALL, range(1))


def test_progress_is_told_every_class_once_and_nothing_when_the_pack_is_there(
    tmp_path: Path,
) -> None:
    told: list[int] = []
    for _ in range(2):
        ensure_builtin(["sketches"], 16, 0, 1, told.append, folder=tmp_path, classes=7, images=2)
        assert sum(told) == 7


def test_the_cache_folder_says_size_seed_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METADRIFT_CACHE", str(tmp_path))
    (pack,) = ensure_builtin(["glyphs"], 16, seed=3, workers=1, classes=5, images=2)
    place = pack.path.relative_to(tmp_path).as_posix()
    assert re.fullmatch(r"builtin/v\d+/16px-seed3-5x2/glyphs-[0-9a-f]{12}", place)


@pytest.fixture
def another_pillow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if Pillow had been exchanged for another version."""
    monkeypatch.setattr(PIL, "__version__", "9.9")
    glyphs.drawn_with.cache_clear()
    yield
    glyphs.drawn_with.cache_clear()


def test_glyphs_of_another_pillow_are_another_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("METADRIFT_CACHE", str(tmp_path / "cache"))
    small = {"size": 16, "classes": 5, "images": 3, "workers": 1}
    before = ensure_builtin(["glyphs", "sketches"], **small)
    mine = ensure_builtin(["glyphs"], **small, folder=tmp_path / "mine")
    request.getfixturevalue("another_pillow")
    now = ensure_builtin(["glyphs", "sketches"], **small)
    assert "Pillow 9.9, FreeType" in now[0].source
    assert now[0].path != before[0].path
    assert now[1].path == before[1].path  # drawn without it
    assert open_pack(before[0].path).source == before[0].source
    with pytest.raises(MetadriftError, match=r"Pillow .* not 'glyphs' from .*Pillow 9\.9"):
        ensure_builtin(["glyphs"], **small, folder=tmp_path / "mine")
    assert open_pack(tmp_path / "mine" / "glyphs").sha256 == mine[0].sha256


@pytest.mark.parametrize("damage", ["pack.json", "images.npy"])
def test_a_damaged_pack_in_the_cache_is_made_again(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METADRIFT_CACHE", str(tmp_path))
    (pack,) = ensure_builtin(["glyphs"], 16, workers=1, classes=5, images=2)
    (pack.path / damage).write_bytes(b"{")
    (again,) = ensure_builtin(["glyphs"], 16, workers=1, classes=5, images=2)
    again.verify()
    assert again.sha256 == pack.sha256


def test_what_lies_in_a_folder_of_ones_own_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "glyphs").mkdir()
    (tmp_path / "glyphs" / "thesis.txt").write_text("mine")
    with pytest.raises(MetadriftError, match="is not a pack"):
        ensure_builtin(["glyphs"], 16, workers=1, folder=tmp_path, classes=5, images=2)
    assert (tmp_path / "glyphs" / "thesis.txt").read_text() == "mine"


def test_another_pack_in_the_place_is_not_taken_for_the_one_asked_for(tmp_path: Path) -> None:
    ensure_builtin(["glyphs"], 16, workers=1, folder=tmp_path, classes=5, images=2)
    with pytest.raises(MetadriftError, match="holds another pack"):
        builtin_pack("glyphs", size=28, folder=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"names": ["sketchez"]}, "no built-in domain 'sketchez': sketches, textures"),
        ({"size": 4}, "8 to 512 pixels wide, not 4"),
        ({"seed": -1}, "0 or more, not -1"),
        ({"workers": 0}, "at least 1 worker, not 0"),
        ({"classes": 101}, "1 to 100 classes"),
    ],
)
def test_wrong_arguments_are_refused_in_a_sentence(
    tmp_path: Path, arguments: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        ensure_builtin(folder=tmp_path / "new", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MetadriftError, match="METADRIFT_CACHE"):
        builtin_pack("glyphs", folder=tmp_path / "file" / "cache")


@pytest.mark.slow
def test_two_programs_at_once_end_with_the_same_whole_packs(tmp_path: Path) -> None:
    asking = [_ask(tmp_path, 12) for _ in range(2)]
    answers = [process.communicate(timeout=100)[0] for process in asking]
    assert [process.returncode for process in asking] == [0, 0]
    assert answers[0] == answers[1]
    for name in ("sketches", "glyphs"):
        open_pack(tmp_path / name).verify()
    assert {path.name for path in tmp_path.iterdir()} == {"sketches", "glyphs"}


@pytest.mark.slow
def test_the_lock_and_the_leavings_of_a_killed_program_are_taken_over(tmp_path: Path) -> None:
    killed = _ask(tmp_path, 100)
    _until(lambda: any(tmp_path.glob(".sketches.*")) or (tmp_path / "sketches").exists())
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=20)
    (tmp_path / ".glyphs.new.left").mkdir()  # as a program killed a moment later would leave
    started = time.monotonic()
    with lock(tmp_path / ".lock", "it is held", patience=5):
        assert time.monotonic() - started < 5
    packs = ensure_builtin(
        ["sketches", "glyphs"], 16, workers=1, folder=tmp_path, classes=100, images=3
    )
    for pack in packs:
        pack.verify()
    assert {path.name for path in tmp_path.iterdir()} == {"sketches", "glyphs"}


def test_a_lock_that_is_held_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    with (
        lock(tmp_path / ".lock", "it is held"),
        pytest.raises(MetadriftError, match=rf"it is held by process {os.getpid()}; wait"),
        lock(tmp_path / ".lock", "it is held", patience=0.2),
    ):
        pass


def test_processes_that_draw_do_not_load_torch() -> None:
    code = (
        "import sys; from metadrift.data.synthetic import draw as g; "
        "[g.draw(name, g.Recipe(16, classes=1, images=1), [0]) for name in g.BUILTIN]; "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_command_makes_packs_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["data", "generate", "silhouettes", "--size", "8", "--out", str(tmp_path), "--json"]
    assert main([*words, "--workers", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["packs"]
    assert Path(row["path"]) == tmp_path / "silhouettes"
    assert open_pack(row["path"]).sha256 == row["sha256"] == _sha256(tmp_path / "silhouettes")


def _ask(folder: Path, classes: int) -> subprocess.Popen[str]:
    script = folder.parent / "ask.py"
    script.write_text(ASK)
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), str(classes)],
        stdout=subprocess.PIPE,
        text=True,
    )


def _until(condition: object, seconds: float = 60.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def _constraints() -> str:
    return (ROOT / "constraints.txt").read_text(encoding="utf-8")


def _sha256(pack: Path) -> str:
    return hashlib.sha256((pack / "images.npy").read_bytes()).hexdigest()
