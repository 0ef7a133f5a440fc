import json
import subprocess
import sys
import time
from pathlib import Path

METADRIFT = Path(sys.executable).with_name("metadrift")


def compare(folder, benchmark, *words):
    command = [METADRIFT, "compare", "--benchmark", benchmark, "--out", folder, "--name", "c"]
    command += ["--ways", "3", "--queries", "2", "--test-tasks", "8", "--stage-tasks", "0"]
    command += ["--learn.filters", "4", "--scale", "0.5", "--workers", "2", *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_comparison_finishes_is_not_repeated_and_can_be_extended(tmp_path, tiny_benchmark):
    words = ["--methods", "sequential", "reservoir", "--seeds", "0", "--workers", "1"]
    first = compare(tmp_path, tiny_benchmark, *words)
    assert first.returncode == 0, first.stderr
    assert "sequential" in first.stdout
    lines = first.stderr.splitlines()
    assert lines[0].startswith("2 runs: 1 running, 1 waiting; 0 of 120 steps")
    assert any("1 done" in line and line.endswith(" s left") for line in lines)
    assert lines[-1] == "2 runs: 2 done"
    assert not any("2 done" in line and "evaluating" in line for line in lines)
    fresh = "fresh tasks: arriving and replayed, images shifted by up to 0.107, 0.75 of the classes"
    assert f"{fresh} turned, in every variant" in first.stdout
    page = tmp_path / "c" / "report.html"
    assert first.stdout.splitlines()[-1] == f"report: {page}"
    assert fresh in page.read_text()
    page.unlink()
    kept = (tmp_path / "c" / "reservoir-protonet-1shot-seed0" / "summary.json").stat().st_mtime_ns
    for file in sorted(tmp_path.rglob("*"), reverse=True):  # a finished run is its summary
        if file.is_file() and file.name not in ("grid.json", "summary.json"):
            file.unlink()
    words = ["--methods", "sequential", "reservoir", "--seeds", "0", "1", "--json"]
    second = compare(tmp_path, tiny_benchmark, *words)
    assert second.returncode == 0, second.stderr
    again = (tmp_path / "c" / "reservoir-protonet-1shot-seed0" / "summary.json").stat().st_mtime_ns
    assert again == kept
    result = json.loads(second.stdout)
    assert not page.exists()  # a machine asked
    assert result == json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert [row["variant"] for row in result["rows"]] == ["sequential", "reservoir"]
    assert all(row["seeds"] == [0, 1] for row in result["rows"])
    assert result["rows"][0]["difference"]["to"] == "reservoir"
    assert "| protonet | 1 | sequential |" in (tmp_path / "c" / "table.md").read_text()
    other = compare(tmp_path, tiny_benchmark, *words, "--lr", "0.5")
    assert other.returncode == 1
    assert f"{tmp_path / 'c'} was begun with lr = 0.001, and now it is 0.5" in other.stderr
    assert "choose another --name" in other.stderr
    assert len(other.stderr.strip().splitlines()) == 1
    same = compare(tmp_path, tiny_benchmark, *words, "--keep", "7")
    assert same.returncode == 0, same.stderr
    assert json.loads(same.stdout)["rows"] == result["rows"]


GRID = """
seeds = [0]
[settings]
benchmark = "{benchmark}"
ways = 3
queries = 2
test_tasks = 8
stage_tasks = 0
scale = 0.2
learn.filters = 4
[[variants]]
method = "reservoir"
replay.batches = {batches}
"""


def test_a_finished_run_is_never_shown_under_other_settings(tmp_path, tiny_benchmark):
    def compared(batches, name="c", **changes):
        text = GRID.format(benchmark=tiny_benchmark, batches=batches)
        for old, new in changes.items():
            text = text.replace(old, new)
        (tmp_path / "grid.toml").write_text(text)
        words = [METADRIFT, "compare", "--grid", tmp_path / "grid.toml", "--out", tmp_path]
        return subprocess.run([*words, "--name", name, "--json"], capture_output=True, text=True)

    assert compared(1).returncode == 0
    before = (tmp_path / "c" / "comparison.json").read_text()
    run = tmp_path / "c" / "reservoir-protonet-1shot-seed0"
    other = compared(4)
    assert other.returncode == 1
    assert f"{run} was begun with replay.batches = 1, and now it is 4" in other.stderr
    assert f"choose another --name, or remove {run}" in other.stderr
    assert len(other.stderr.strip().splitlines()) == 1
    assert (tmp_path / "c" / "comparison.json").read_text() == before
    assert compared(4, name="d").returncode == 0
    # Nor in the table or on the page of a folder whose grid was edited.
    grid = tmp_path / "c" / "grid.json"
    grid.write_text(grid.read_text().replace('"batches": 1', '"batches": 4'))
    page = subprocess.run([METADRIFT, "report", tmp_path / "c"], capture_output=True, text=True)
    assert page.returncode == 1
    assert "replay.batches = 1, and now it is 4" in page.stderr


def test_a_comparison_that_is_refused_leaves_no_folder_and_its_correction_runs(
    tmp_path, tiny_benchmark
):
    words = ["--methods", "reservoir", "--seeds", "0", "--json"]
    for wrong, says in [
        (["--ways", "40"], "a 40-way task needs 40"),
        (["--memory.capacity", "-3"], "capacity"),
        (["--device", "cuda"], "there is no cuda device here"),
    ]:
        refused = compare(tmp_path, tiny_benchmark, *words, *wrong)
        assert refused.returncode in (1, 2)
        assert refused.stderr.startswith("metadrift compare: ")
        assert says in refused.stderr
        assert not (tmp_path / "c").exists()
    assert compare(tmp_path, tiny_benchmark, *words).returncode == 0


def test_names_that_look_like_markup_stay_as_they_are(tmp_path, tiny_benchmark):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        f"""title = "[/i]all"
        seeds = [0]
        notes = ["[/u]small"]
        [settings]
        benchmark = "{tiny_benchmark}"
        scale = 0.1
        ways = 3
        queries = 2
        test_tasks = 2
        [[variants]]
        name = "[/b]x\\u001b[31m"
        method = "sequential"
        """
    )
    done = compare(tmp_path, tiny_benchmark, "--grid", grid)
    assert done.returncode == 0, done.stderr
    for name in ("[/i]all", "[/b]x?[31m", "[/u]small"):
        assert name in done.stdout


def test_a_failed_run_is_named_with_its_reason_and_does_not_stop_the_others(
    tmp_path, tiny_benchmark
):
    words = ["--methods", "mer", "sequential", "--seeds", "0", "--baseline.mer-alpha", "1e30"]
    done = compare(tmp_path, tiny_benchmark, *words)
    assert done.returncode == 1
    assert "failed: mer-protonet-1shot-seed0: " in done.stderr
    assert "metadrift resume:" not in done.stderr
    assert "learning rate" in done.stderr
    assert (tmp_path / "c" / "sequential-protonet-1shot-seed0" / "summary.json").is_file()


def test_a_comparison_that_is_asked_to_stop_lets_its_runs_save_themselves(tmp_path, tiny_benchmark):
    command = [
        METADRIFT,
        "compare",
        "--benchmark",
        tiny_benchmark,
        "--out",
        tmp_path,
        "--name",
        "c",
    ]
    command += ["--methods", "reservoir", "--seeds", "0", "--ways", "3", "--queries", "2"]
    command += ["--test-tasks", "4000", "--log-every", "5"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    run = tmp_path / "c" / "reservoir-protonet-1shot-seed0"
    end = time.monotonic() + 120
    while not (run / "metrics.jsonl").is_file() or not (run / "metrics.jsonl").stat().st_size:
        assert time.monotonic() < end
        time.sleep(0.02)
    process.terminate()
    process.communicate()
    assert process.returncode == 130
    assert "metadrift resume" in (run / "log.txt").read_text()
    assert list((run / "checkpoints").glob("step-*"))
