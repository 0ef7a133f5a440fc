"""Another program takes a run's folder after a comparison has prepared it."""

import json
from types import SimpleNamespace

import pytest

from metadrift.experiments import local, on_ray
from metadrift.experiments.grid import Grid
from metadrift.experiments.progress import write_config
from metadrift.experiments.run_grid import Engine, run_grid
from metadrift.runs.loop import start
from metadrift.runs.resolve import OtherSettingsError

SETTINGS = {
    "benchmark": "builtin",
    "scale": 0.001,
    "test_tasks": 2,
    "stage_tasks": 0,
    "learn": {"filters": 2},
    "queries": 1,
}


def grid(**changes):
    return Grid(
        title="race",
        variants={"reservoir": {"method": "reservoir"}},
        learners=["protonet"],
        shots=[1],
        seeds=[0],
        settings={**SETTINGS, **changes},
    )


def another_program(**changes):
    """A stand-in for `write_config` after which the run is begun and finished by somebody else."""

    def prepared(entry, home, threads):
        found = write_config(entry, home, threads)
        for file in ("config.toml", "benchmark.toml"):
            (found / file).unlink()
        (theirs,) = grid(**changes).cells()
        start(theirs.config, found, quiet=True)
        return found

    return prepared


class PretendRay:
    """Does the tasks of Ray at once and in this process."""

    exceptions = SimpleNamespace(RayError=ConnectionError)

    def remote(self, **_):
        return lambda do: SimpleNamespace(
            options=lambda **_: SimpleNamespace(remote=lambda *given: do(*given))
        )

    def wait(self, pending, **_):
        return pending, []

    def get(self, result):
        return result

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 1}}]

    def shutdown(self):
        pass


@pytest.fixture(params=["local", "ray"])
def engine(request, monkeypatch):
    if request.param == "local":
        return local, Engine(workers=1)
    monkeypatch.setattr(on_ray, "_connect", lambda address: PretendRay())
    monkeypatch.setattr("metadrift.learners.allocator.keep_freed_memory", lambda: None)
    return on_ray, Engine(ray_address="here")


@pytest.mark.slow
def test_a_result_with_other_settings_never_becomes_a_row(engine, monkeypatch, tmp_path):
    module, where = engine
    folder = tmp_path / "race"
    monkeypatch.setattr(module, "write_config", another_program(queries=2))
    with pytest.raises(OtherSettingsError, match="queries"):
        run_grid(grid(), folder, where, quiet=True)
    assert not (folder / "comparison.json").exists()


@pytest.mark.slow
def test_a_result_with_the_same_settings_is_taken(engine, monkeypatch, tmp_path):
    module, where = engine
    folder = tmp_path / "race"
    monkeypatch.setattr(module, "write_config", another_program())
    result, failed = run_grid(grid(), folder, where, quiet=True)
    assert not failed
    assert not result["missing"]
    summary = json.loads(next(folder.glob("*/summary.json")).read_text())
    assert result["rows"][0]["accuracy"]["mean"] == summary["accuracy"]["mean"]
