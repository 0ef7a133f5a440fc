import os

import pytest

from metadrift.errors import MetadriftError
from metadrift.experiments.comparison import gather
from metadrift.experiments.grid import Grid, load_grid
from metadrift.experiments.local import core_shares
from metadrift.experiments.table import markdown
from metadrift.storage.files import write_json

TOML = """
title = "two"
shots = [1, 5]
seeds = [3, 4]
reference = "reservoir"
[settings]
scale = 0.5
replay.batches = 2
[[variants]]
method = "reservoir"
[[variants]]
name = "without PETS"
method = "m2d3-pets"
replay.sampler = "uniform"
"""


def test_a_file_of_variants_becomes_runs_with_their_settings(tmp_path):
    (tmp_path / "two.toml").write_text(TOML)
    cells = load_grid(tmp_path / "two.toml").cells()
    assert len(cells) == 8
    assert [cell.seed for cell in cells] == [3] * 4 + [4] * 4  # first seeds come first
    assert cells[1].name == "without-PETS-protonet-1shot-seed3"
    config = cells[1].config
    assert (config.method, config.scale, config.shots, config.seed) == ("m2d3-pets", 0.5, 1, 3)
    assert (config.replay.batches, config.replay.sampler) == (2, "uniform")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shots = 1", "shots must be a list"),
        ("colour = 1", "there is no setting 'colour'"),
        ("variants = 3", "variants must be a list, not 3"),
        ("[[variants]]\nscale = 1.0", "a `name` that no other has"),
        ("[[variants]]\nmethod = 'magic'", "there is no method 'magic'"),
        (
            "[[variants]]\nmethod = 'reservoir'\n[[variants]]\nmethod = 'reservoir'",
            "that no other has",
        ),
        ("reference = 'mir'\n[[variants]]\nmethod = 'reservoir'", "'mir' is not among reservoir"),
        ("", "at least one method"),
        ("= 3", "cannot be read"),
    ],
)
def test_a_wrong_comparison_gets_one_sentence(tmp_path, text, says):
    (tmp_path / "g.toml").write_text(text)
    with pytest.raises(MetadriftError, match=says):
        load_grid(tmp_path / "g.toml").cells()


def summary(mean, oracle=False):
    return {
        "method": "reservoir",
        "oracle": oracle,
        "accuracy": {"mean": mean, "per_domain": {"a": {"mean": mean}, "b": {"mean": mean}}},
        "forgetting": 0.1,
        "backward_transfer": -0.1,
        "memory": {"min_share": 0.2},
        "detection": {
            "true_changes": 5,
            "detected": 4,
            "false_alarms": 0,
            "mean_delay": 30.0,
            "true_domains": 6,
            "latent_domains": 6,
            "returns": 2,
            "recognised": 1,
            "wrong_labels": 0,
        },
        "timing": {"wall_s": 9.0},
    }


def test_rows_hold_means_over_seeds_and_differences_paired_by_seed(tmp_path):
    variants = {"reservoir": {"method": "reservoir"}, "ours": {"method": "m2d3-pets"}}
    grid = Grid("t", variants, seeds=(0, 1, 2), reference="reservoir")
    values = {"reservoir": [0.4, 0.5, 0.6], "ours": [0.45, 0.56, 0.64]}
    for cell in grid.cells():
        (tmp_path / cell.name).mkdir()
        write_json(tmp_path / cell.name / "summary.json", summary(values[cell.variant][cell.seed]))
    result = gather(grid, tmp_path)
    reservoir, ours = result["rows"]
    assert reservoir["accuracy"]["mean"] == pytest.approx(0.5)
    assert "difference" not in reservoir
    assert ours["difference"]["mean"] == pytest.approx(0.05)
    low, high = ours["difference"]["t95"]
    assert 0 < low < 0.05 < high
    assert ours["detection"] == {
        "true_changes": 15, "detected": 12, "false_alarms": 0, "mean_delay": 30.0,
        "true_domains": 6, "latent_domains": 6, "returns": 6, "recognised": 3, "wrong_labels": 0,
    }  # fmt: skip
    assert "| protonet | 1 | ours | 55.0 ± 23.7 | +5.0 [+2.5, +7.5] |" in markdown(result)


def test_one_seed_has_no_interval_and_the_table_does_not_speak_of_one(tmp_path):
    variants = {"reservoir": {"method": "reservoir"}, "ours": {"method": "m2d3-pets"}}
    for seeds in ((0,), (0, 1)):
        grid = Grid("t", variants, seeds=seeds, reference="reservoir")
        for cell in grid.cells():
            (tmp_path / cell.name).mkdir(exist_ok=True)
            write_json(tmp_path / cell.name / "summary.json", summary(0.4 + 0.1 * cell.seed))
        text = markdown(gather(grid, tmp_path))
        several = len(seeds) > 1
        assert ("interval" in text) is ("±" in text) is ("[" in text) is several
        assert ("paired by seed" in text) is several
        assert ("differences are to reservoir, of one seed" in text) is not several
    assert "| 10.0 | -10.0 | 20.0 |" in text  # forgetting, backward transfer, memory


def test_what_is_not_finished_is_named(tmp_path):
    grid = Grid("t", {"reservoir": {"method": "reservoir"}}, seeds=(0, 1))
    first = grid.cells()[0]
    (tmp_path / first.name).mkdir()
    write_json(tmp_path / first.name / "summary.json", summary(0.4))
    result = gather(grid, tmp_path)
    assert result["missing"] == ["reservoir-protonet-1shot-seed1"]
    assert result["rows"][0]["seeds"] == [0]


def test_every_worker_of_a_comparison_has_cores_of_its_own():
    usable = sorted(os.sched_getaffinity(0))
    for workers in range(1, len(usable) + 1):
        shares = core_shares(workers)
        used = [core for share in shares for core in share]
        assert len(shares) == workers
        assert len(set(used)) == len(used)
        assert all(shares)
    assert len(core_shares(3 * len(usable))) == 3 * len(usable)
