"""The page says what the folder holds, whatever the folder holds."""

import json
import re

import pytest

from metadrift.cli import main
from metadrift.errors import MetadriftError
from metadrift.report.make import make_report
from metadrift.report.subject import read_subject

HOSTILE = "<script>alert(1)</script>"


def page_of(folder, **more):
    path, _ = make_report(folder, **more)
    return path.read_text(encoding="utf-8")


def row_of(page, name):
    """The cells of a variant's row in the first table."""
    body = re.search(r"<tbody>(.*?)</tbody>", page, re.DOTALL)[1]
    row = next(r for r in re.findall(r"<tr.*?</tr>", body, re.DOTALL) if f"</i>{name}<" in r)
    return re.findall(r"<td>(.*?)</td>", row)


def test_the_headline_has_interval_and_paired_difference(comparison):
    page = page_of(comparison)
    # Seeds 0 and 1 have 54 and 55: mean 54.5, and half of Student's interval 12.706 * 0.5.
    assert row_of(page, "m2d3-pets")[1:3] == ["54.5 ± 6.4", "+4.0 [+4.0, +4.0]"]
    assert row_of(page, "m2d3-pets")[4:6] == ["3.0", "-3.0"]  # forgetting, backward transfer
    assert "backward transfer, points" in page
    assert "to reservoir" in page


def test_every_part_of_a_comparison_is_there(comparison):
    page = page_of(comparison)
    for heading in (
        "The result",
        "Accuracy by domain",
        "Accuracy by domain over time",
        "The stream",
        "Statistic against threshold",
        "What the memory holds",
        "What is drawn from memory",
        "Variance of the replay gradient",
        "Time and memory",
        "Configuration",
    ):
        assert f"<h3>{heading}</h3>" in page
    assert 'aria-label="memory of reservoir"' in page
    assert 'aria-label="memory of sequential"' not in page  # it has none


def test_an_oracle_is_marked_wherever_it_is_named(comparison):
    page = re.sub(r"<pre>.*?</pre>", "", page_of(comparison), flags=re.DOTALL)
    assert "balanced-oracle (oracle)" in page
    # In full or, where there is little room, shortened, but with its mark.
    assert not re.findall(r"balanced-o(?!racle \(oracle\)|[racle]*… \(oracle\))", page)


def test_nothing_is_fetched(comparison):
    page = page_of(comparison)
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", page)
    assert "http" not in page.replace('http-equiv="Content', "")
    assert "default-src 'none'" in page.replace("&#39;", "'")


def test_hostile_names_come_out_escaped(tmp_path, write_comparison):
    quote = '"><img src=x onerror=alert(2)>'
    folder = write_comparison(
        tmp_path / "c",
        {HOSTILE: "reservoir", quote: "m2d3-pets"},
        segments=((HOSTILE, 30), (quote, 70)),
        title=HOSTILE,
        notes=(HOSTILE,),
    )
    page = page_of(folder)
    assert HOSTILE not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script>") == 1  # our own


def test_a_single_run_gets_a_page_with_intervals_over_tasks(comparison):
    page = page_of(comparison / "m2d3-pets-protonet-1shot-seed0")
    assert row_of(page, "m2d3-pets")[1] == "54.0 ± 1.0"
    assert "over test tasks" in page
    assert "Still going" not in page


def test_a_run_that_goes_on_says_how_far_it_is(tmp_path, write_comparison):
    going = "m2d3-pets-protonet-1shot-seed1"
    variants = {"reservoir": "reservoir", "m2d3-pets": "m2d3-pets"}
    folder = write_comparison(tmp_path / "c", variants, unfinished=[going])
    (folder / "comparison.json").unlink()  # written at the end only
    whole = page_of(folder)
    assert "3 of 4 runs are finished" in whole
    assert "<h3>The result</h3>" in whole
    assert row_of(whole, "reservoir")[1] == "50.5 ± 6.4"
    assert row_of(whole, "m2d3-pets")[1] == "52.0"  # one seed of two: no interval beside theirs
    alone = page_of(folder / going)
    assert "0 of 1 run is finished" in alone
    assert "step 40 of 410" in alone  # the built-in benchmark at this scale
    assert "Statistic against threshold" in alone


def test_a_comparison_that_has_not_begun_gets_a_page(tmp_path, write_comparison):
    folder = write_comparison(tmp_path / "c", {"reservoir": "reservoir"})
    for run in ("reservoir-protonet-1shot-seed0", "reservoir-protonet-1shot-seed1"):
        for file in (folder / run).iterdir():
            file.unlink()
    assert "not begun" in page_of(folder)


def test_alarms_lie_on_the_statistic_and_peaks_survive(comparison):
    page = page_of(comparison)
    assert "alarm at step 34, 4 steps after the last true change" in page
    assert "latent 1, mostly stones: steps 30 to 50" in page


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("summary.json", "{}"),
        ("summary.json", "[]"),
        ("summary.json", '{"segments": "x"}'),
        ("summary.json", '{"segments": [["a", 1e300]], "seed": "x", "accuracy": {}}'),
        ("config.toml", "seed = ["),
    ],
)
def test_damaged_files_give_one_sentence(tmp_path, write_comparison, file, text):
    folder = write_comparison(tmp_path / "c", {"reservoir": "reservoir"})
    run = folder / "reservoir-protonet-1shot-seed0"
    (run / file).write_text(text)
    with pytest.raises(MetadriftError):
        make_report(run)
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("line", ["{]", "3", '{"step": 1e999}', "\ufffd{", '{"step": 40, "lo'])
def test_a_damaged_line_is_left_out_and_told(tmp_path, write_comparison, line, capsys):
    folder = write_comparison(tmp_path / "c", {"reservoir": "reservoir"})
    run = folder / "reservoir-protonet-1shot-seed0"
    for name in ("metrics", "events"):
        with open(run / f"{name}.jsonl", "a") as file:
            file.write(line + "\n")
    page, _ = make_report(run)
    assert "reservoir-protonet-1shot-seed0: 2 damaged lines are left out" in page.read_text()
    said = capsys.readouterr().err.splitlines()
    assert [word in said[k] for k, word in enumerate(["metrics.jsonl, line 11", "events.jsonl"])]
    assert make_report(folder)[0].is_file()


def test_a_folder_that_is_neither_is_named(tmp_path):
    with pytest.raises(MetadriftError, match=r"neither a run .* nor a comparison"):
        read_subject(tmp_path)


def test_the_command_says_what_it_wrote(comparison, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["report", str(comparison), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["report"] == str(out)
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_an_upper_bound_is_marked(tmp_path, write_comparison):
    folder = write_comparison(tmp_path / "c", {"all at once": "joint", "reservoir": "reservoir"})
    page = page_of(folder)
    assert "all at once (upper bound)" in page
    assert "reservoir (upper bound)" not in page
