"""`metadrift classify` through the installed command, and `metadrift.load` from Python."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import metadrift
from metadrift.cli import main
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Pictures
from metadrift.live.pictures import read_support

COMMAND = Path(sys.executable).parent / "metadrift"


def run_metadrift(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_new_pictures_are_named_with_probabilities_and_accuracy(run_of, folders) -> None:
    support, query = folders
    words = ["classify", "--run", run_of("protonet"), "--support", support, "--query", query]
    done = run_metadrift(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["classes"] == [f"class {c}" for c in range(4)]
    assert found["shots"] == {f"class {c}": c + 1 for c in range(4)}
    assert len(found["queries"]) == 20
    for row in found["queries"]:
        assert sum(row["probabilities"].values()) == pytest.approx(1)
        assert row["probability"] == max(row["probabilities"].values())
        assert row["truth"] == row["picture"].split("/")[0]
    # 1 to 4 shots of patterns in noise: far above the 0.25 of guessing.
    assert found["accuracy"] > 0.7
    assert found["checkpoint"] == 48

    lines = list(csv.DictReader(io.StringIO(run_metadrift(*words, "--csv").stdout)))
    assert [line["class"] for line in lines] == [row["class"] for row in found["queries"]]
    assert float(lines[3]["class 2"]) == pytest.approx(
        found["queries"][3]["probabilities"]["class 2"], abs=1e-5
    )
    said = run_metadrift(*words).stdout
    assert f"accuracy: {100 * found['accuracy']:.1f}% of 20 pictures" in said


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["ridge", "anil", "maml"])
def test_every_learner_names_more_classes_than_it_was_trained_with(
    learner: str, run_of, folders
) -> None:
    model = metadrift.load(run_of(learner))
    found = model.classify(*folders)
    assert model.config.ways == 3
    assert len(found.classes) == 4
    assert found.accuracy > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["protonet", "anil", "maml", "ridge"])
def test_two_classes_are_enough(learner: str, run_of, pictures) -> None:
    support = {"a": pictures(0, 3), "b": pictures(1, 3)}
    found = metadrift.load(run_of(learner)).classify(support, pictures(1, 4, seed=2))
    assert found.probabilities.shape == (4, 2)
    if learner in ("protonet", "ridge"):  # a few steps do not train an inner loop for 2 ways
        assert found.names == ["b"] * 4
    assert found.accuracy is None
    assert found.pictures == ["picture 0", "picture 1", "picture 2", "picture 3"]


def test_arrays_files_and_pillow_images_give_the_same_answer(
    run_of, pictures, tmp_path: Path
) -> None:
    model = metadrift.load(run_of("protonet"))
    support = {"a": pictures(0, 2), "b": pictures(1, 2)}
    (picture,) = pictures(0, 1, seed=3)
    Image.fromarray(picture).save(tmp_path / "one.png")
    forms = [picture, [picture], np.stack([picture]), tmp_path / "one.png"]
    forms += [str(tmp_path / "one.png"), Image.fromarray(picture), tmp_path]
    answers = [model.classify(support, form).probabilities for form in forms]
    assert all(np.array_equal(answer, answers[0]) for answer in answers)


def test_a_picture_of_any_size_is_fitted_as_an_import_would(run_of, pictures, tmp_path) -> None:
    model = metadrift.load(run_of("protonet"))
    (small,) = pictures(0, 1)
    large = Image.fromarray(small).resize((60, 36), Image.Resampling.NEAREST)
    large.save(tmp_path / "large.png")
    support = {"a": pictures(0, 1), "b": pictures(1, 1)}
    assert model.example == Pictures(12, 3)
    assert model.classify(support, tmp_path / "large.png").names == ["a"]


def test_the_answer_of_a_picture_is_its_own_unless_all_are_looked_at_together(
    run_of, folders
) -> None:
    support, query = folders
    model = metadrift.load(run_of("protonet"))
    every, one = (
        model.classify(support, query),
        model.classify(support, query / "class 2" / "0.png"),
    )
    place = every.pictures.index("class 2/0.png")
    np.testing.assert_allclose(every.probabilities[place], one.probabilities[0], rtol=1e-4)
    together = model.classify(support, query, together=True)
    assert not np.allclose(together.probabilities, every.probabilities)


def test_any_kept_checkpoint_can_be_asked(run_of, folders, capsys) -> None:
    support, query = folders
    words = ["classify", "--run", str(run_of("protonet")), "--support", str(support)]
    words += ["--query", str(query), "--json"]
    assert main([*words, "--checkpoint", "20"]) == 0
    early = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    late = json.loads(capsys.readouterr().out)
    assert early["checkpoint"] == 20
    assert early["queries"][0]["probabilities"] != late["queries"][0]["probabilities"]
    assert main([*words, "--checkpoint", "7"]) == 2
    assert "there are those of 20, 40, 48" in capsys.readouterr().err


def test_a_run_without_its_packs_and_summary_still_knows_its_pictures(
    run_of, folders, tmp_path, capsys
) -> None:
    alone = tmp_path / "alone"
    shutil.copytree(run_of("protonet"), alone)
    (alone / "summary.json").unlink()
    text = (alone / "config.toml").read_text()
    (alone / "config.toml").write_text(text.replace('benchmark = "', 'benchmark = "/nowhere'))
    assert metadrift.load(alone).example == Pictures(12, 3)
    assert metadrift.load(alone, grey=True).example == Pictures(12, 1)
    assert metadrift.load(alone).classify(*folders).accuracy > 0.7


def test_a_zip_of_class_folders_will_do(run_of, folders, tmp_path) -> None:
    support, query = folders
    with zipfile.ZipFile(tmp_path / "support.zip", "w") as archive:
        for file in sorted(support.rglob("*.png")):
            archive.write(file, file.relative_to(support.parent))
    model = metadrift.load(run_of("protonet"))
    zipped = model.classify(tmp_path / "support.zip", query)
    np.testing.assert_array_equal(
        zipped.probabilities, model.classify(support, query).probabilities
    )


def test_bad_query_files_are_left_out_and_bad_support_files_stop(run_of, folders, capsys) -> None:
    support, query = folders
    (query / "class 1" / "broken.png").write_bytes(b"no picture")
    words = ["classify", "--run", str(run_of("protonet")), "--support", str(support)]
    assert main([*words, "--query", str(query)]) == 0
    said = capsys.readouterr()
    assert "left out: class 1/broken.png: not an image we know" in said.err
    assert "of 20 pictures" in said.out
    (support / "class 1" / "broken.png").write_bytes(b"no picture")
    assert main([*words, "--query", str(query)]) == 1
    assert "support picture class 1/broken.png" in capsys.readouterr().err


def test_files_of_unknown_class_have_no_accuracy(run_of, folders, capsys) -> None:
    support, query = folders
    files = [str(query / "class 0" / f"{n}.png") for n in range(2)]
    words = ["classify", "--run", str(run_of("protonet")), "--support", str(support)]
    assert main([*words, "--query", *files]) == 0
    said = capsys.readouterr().out
    assert "accuracy" not in said
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"--run": "nowhere"}, "no config.toml"),
        ({"--support": "nowhere"}, "no file or folder"),
        ({"--query": "nowhere.png"}, "no file or folder"),
    ],
)
def test_what_is_missing_is_named(change, says, run_of, folders, capsys) -> None:
    support, query = folders
    words = {"--run": str(run_of("protonet")), "--support": str(support), "--query": str(query)}
    flat = [word for pair in (words | change).items() for word in pair]
    assert main(["classify", *flat]) == 1
    assert says in capsys.readouterr().err


def test_a_folder_of_runs_names_them(run_of, tmp_path, capsys) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.toml").write_text("")
    with pytest.raises(MetadriftError, match="there are runs in it: mine"):
        metadrift.load(tmp_path)
    with pytest.raises(MetadriftError, match="no checkpoint yet"):
        metadrift.load(tmp_path / "mine")


def test_support_of_one_class_or_of_no_pictures_is_refused(tmp_path, pictures) -> None:
    image_format = Pictures(12, 3)
    with pytest.raises(MetadriftError, match="at least 2 classes"):
        read_support({"a": pictures(0, 1)}, image_format)
    with pytest.raises(MetadriftError, match="'b' has no picture"):
        read_support({"a": pictures(0, 1), "b": []}, image_format)
    with pytest.raises(UsageError, match="uint8"):
        read_support({"a": pictures(0, 1), "b": [np.zeros((4, 4))]}, image_format)
    (tmp_path / "a").mkdir()
    with pytest.raises(MetadriftError, match="class folders"):
        read_support(tmp_path, image_format)


def test_both_forms_at_once_are_wrong_use(run_of, folders, capsys) -> None:
    support, query = folders
    words = ["classify", "--run", "x", "--support", str(support), "--query", str(query)]
    assert main([*words, "--json", "--csv"]) == 2
    assert "cannot both" in capsys.readouterr().err


def test_the_precision_is_the_run_s_unless_another_is_asked_for(run_of, folders, capsys) -> None:
    support, query = folders
    words = ["classify", "--run", run_of("protonet"), "--support", support, "--query", query]

    def asked(*more):
        assert main([*map(str, words), "--json", *more]) == 0
        said = capsys.readouterr()
        return json.loads(said.out), said.err

    plain, _ = asked()
    mixed, quiet = asked("--precision", "bf16")
    chosen, said = asked("--precision", "auto")
    assert (plain["precision"], mixed["precision"], quiet) == ("float32", "bf16", "")
    assert said.startswith(f"precision {chosen['precision']}: ")
    names = [[row["class"] for row in found["queries"]] for found in (plain, mixed)]
    assert sum(a == b for a, b in zip(*names, strict=True)) >= 18
    rows = [found["queries"][0]["probability"] for found in (plain, mixed)]
    assert rows[0] != rows[1]
    assert rows[0] == pytest.approx(rows[1], abs=0.1)
