"""Hostile names in a terminal and as folders; tests/report has them on the page."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metadrift.cli import main
from metadrift.data.pack import open_pack, write_pack
from metadrift.errors import MetadriftError
from metadrift.runs.loop import start
from metadrift.storage.files import is_folder_name

NAMES = ["[/bold]", "[link=http://x]", "\x1b]0;owned\x07", "<script>", "a\nb", "\u202egnp.exe"]


def summary(names, **changes):
    each = {name: {"mean": 0.5, "ci95": 0.1, "tasks": 9} for name in names}
    return {
        "method": "reservoir",
        "oracle": False,
        "learner": "protonet",
        "accuracy": {"mean": 0.5, "ci95": 0.1, "per_domain": each},
        "detection": None,
    } | changes


def finished(folder, text):
    folder.mkdir()
    (folder / "config.toml").write_text("")
    (folder / "summary.json").write_text(text)
    return str(folder)


def test_names_are_shown_as_they_are_without_markup_or_codes(tmp_path, capsys):
    run = finished(tmp_path / "[b]run", json.dumps(summary(NAMES)))
    assert main(["resume", run]) == 0
    said = capsys.readouterr().out
    assert "[/bold]" in said
    assert "[link=http://x]" in said
    assert "[b]run" in said
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", '{"method": 3}', json.dumps(summary([], accuracy=7)), "{" * 9000, "\0"],
)
def test_a_summary_that_is_none_gets_one_sentence(text, tmp_path, capsys):
    run = finished(tmp_path / "run", text)
    assert main(["resume", run]) == 1
    said = capsys.readouterr().err
    assert "summary.json" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["..", "../../out", "a/b", "a\\b", "", "a\0b"])
def test_a_domain_cannot_be_named_out_of_the_runs_folder(name, config, tmp_path):
    assert not is_folder_name(name)
    if not name:
        return  # the benchmark refuses it before that
    packs = Path(config.benchmark).parent
    lines = ["[[segments]]", f"domain = {json.dumps(name)}", "steps = 2"]
    (tmp_path / "b.toml").write_text(
        "\n".join([*lines, f"pack = {json.dumps(str(packs / 'dark'))}"])
    )
    named = replace(config, benchmark=str(tmp_path / "b.toml"), method="independent")
    with pytest.raises(MetadriftError, match="in a folder of its name"):
        start(named, tmp_path / "runs" / "run", quiet=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.toml"]


def test_unreadable_files_are_named_without_terminal_codes(tmp_path, capsys):
    for name in ("cat", "dog", "fox"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(tmp_path / "pets" / name / "1.png")
    (tmp_path / "pets" / "cat" / "\x1b[31m.png").write_bytes(b"no image")
    words = ["data", "import", "folder", str(tmp_path / "pets"), "--out", str(tmp_path)]
    assert main([*words, "--size", "8", "--name", "small", "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert "cat/?[31m.png" in said
    assert "\x1b" not in said


def test_class_names_that_are_no_text_are_kept_as_text(tmp_path):
    images, labels = np.zeros((8, 8, 8), np.uint8), np.repeat(np.arange(4), 2)
    np.savez(tmp_path / "s.npz", images=images, labels=labels, names=["a\ud800", "b", "c", "d"])
    words = ["data", "import", "npz", str(tmp_path / "s.npz"), "--out", str(tmp_path)]
    assert main([*words, "--size", "8"]) == 0
    assert "a\ufffd" in open_pack(tmp_path / "s").class_names


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_folder_whose_name_is_not_utf8_becomes_a_pack_with_a_name(tmp_path, capsys):
    pets = tmp_path / os.fsdecode(b"p\xffts")
    for name in ("cat", "dog"):
        (pets / name).mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(pets / name / "1.png")
    words = ["data", "import", "folder", str(pets), "--out", str(tmp_path / "data"), "--size", "8"]
    assert main([*words, "--workers", "1"]) == 0, capsys.readouterr().err
    (made,) = (tmp_path / "data").iterdir()
    assert open_pack(made).name == "p\ufffdts"
    assert main(["data", "list", "--data", str(tmp_path / "data")]) == 0
    assert "damaged" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["report", "a" * 300], ["watch", "a" * 300], ["detect", "a" * 300 + ".csv"]]
)
def test_a_path_that_no_disk_can_hold_gets_one_sentence(words, capsys):
    assert main(words) in (1, 2)
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert "a" * 300 in said


def test_a_seed_below_zero_is_refused_by_detect(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("1,2\n3,4\n")
    assert main(["detect", str(tmp_path / "d.csv"), "--seed", "-1"]) == 2
    assert "--seed must be 0 or more, not -1" in capsys.readouterr().err


@pytest.mark.parametrize("every", ["0", "1" + "0" * 400])
def test_a_false_alarm_rate_that_no_number_holds_is_refused(every, tmp_path, capsys):
    (tmp_path / "d.csv").write_text("1,2\n3,4\n")
    assert main(["detect", str(tmp_path / "d.csv"), "--false-alarm-every", every]) == 2
    assert "--false-alarm-every must be between 1 and 10^15 steps" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_run_whose_name_is_not_utf8_is_shown_and_reported(config, driver, tmp_path):
    assert driver.run(tmp_path, config, "run")[0] == 0
    run = (tmp_path / "run").rename(tmp_path / os.fsdecode(b"r\xffn"))
    for words in (["resume", run], ["report", run], ["watch", run, "--once"]):
        code, said = driver(tmp_path, *words)
        assert code == 0, said
    assert "<h1" in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_not_utf8_and_must_be_written_gets_one_sentence(config, driver, tmp_path):
    data = tmp_path / os.fsdecode(b"d\xff")
    shutil.copytree(Path(config.benchmark).parent, data)
    words = ["run", "--benchmark", data / "short.toml", "--ways", 3, "--queries", 2]
    code, said = driver(tmp_path, *words, "--out", tmp_path, "--name", "run", "--json")
    assert code in (0, 1)
    assert "Traceback" not in said
    if code:
        assert "is not UTF-8 text" in said
        assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["\x1b[31mred", "\u202egnp"])
def test_a_preview_takes_no_control_code_from_the_packs_name(name, tmp_path, monkeypatch, capsys):
    rows = [(f"c{c}", "train", np.zeros((2, 8, 8, 1), np.uint8)) for c in range(3)]
    write_pack(tmp_path / "p", name, rows, source="here", licence="CC0")
    monkeypatch.chdir(tmp_path)
    assert main(["data", "preview", str(tmp_path / "p")]) == 0
    said = capsys.readouterr().out.strip()
    assert said.isprintable()
    assert Path(said).is_file()
