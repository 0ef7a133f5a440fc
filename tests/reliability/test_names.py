"""Hostile names in a terminal and as folders; tests/report has them on the page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from metadrift.cli import main
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
