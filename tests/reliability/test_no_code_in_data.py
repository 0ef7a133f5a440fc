"""Nothing that is read can run: no unpickling in the source, and none under any file name."""

import ast
import io
import json
import os
import pickle
import tomllib
import zipfile
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from PIL import Image

from metadrift import registry
from metadrift.cli import main
from metadrift.data.images import UnreadableImageError, decode
from metadrift.data.pack import write_pack
from metadrift.examples import Pictures
from metadrift.runs.checkpoint import save_checkpoint
from metadrift.runs.config import to_toml
from metadrift.runs.folder import write_settings
from metadrift.runs.prepare import prepared
from metadrift.streams.manifest import ManifestStream
from metadrift.tasks import TaskGeometry

SOURCE = Path(__file__).parents[2] / "src" / "metadrift"
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "yaml"}
MODULES |= {"pandas", "code", "codeop", "runpy", "imp"}
BUILTINS = {"eval", "exec", "compile", "__import__", "breakpoint"}
CALLS = {"torch.load", "torch.hub.load", "torch.jit.load", "torch.package", "os.system", "os.popen"}
CALLS |= {"np.fromregex", "tempfile.mktemp", "subprocess.getoutput", "subprocess.getstatusoutput"}
METHODS = {"extractall", "extract"}  # an archive is read in place; what Python extracts may escape


def what_is_forbidden(text):
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [(node.module or "").split(".")[0]]
        yield from (f"import {name}" for name in names if name in MODULES)
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in BUILTINS | CALLS or called.split(".")[-1] in METHODS:
            yield called
        options = {option.arg: ast.unparse(option.value) for option in node.keywords}
        if options.get("allow_pickle", "False") != "False" or options.get("shell") == "True":
            yield called
        if called in ("np.load", "numpy.load") and "allow_pickle" not in options:
            yield f"{called} without allow_pickle=False"


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "import joblib", "eval(text)", "exec(text)",
        "torch.load(file)", "np.load(file)", "np.load(file, allow_pickle=True)", "os.system(text)",
        "np.load(file, allow_pickle=flag)", "subprocess.run(text, shell=True)", "tar.extractall()",
    ],
)  # fmt: skip
def test_the_check_of_the_source_knows_what_it_looks_for(text):
    assert list(what_is_forbidden(text))


def test_the_source_calls_nothing_that_runs_data():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    found = {
        f"{file.relative_to(SOURCE)}: {what}"
        for file in files
        for what in what_is_forbidden(file.read_text(encoding="utf-8"))
    }
    assert found == set()


NETWORK = {
    "http.client",
    "http.server",
    "urllib.request",
    "socket",
    "socketserver",
    "ssl",
    "ftplib",
}
NETWORK |= {"smtplib", "asyncio", "requests", "httpx", "aiohttp", "webbrowser", "xmlrpc"}


def test_only_the_download_can_reach_a_network():
    found = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            if NETWORK & {".".join(name.split(".")[:k]) for name in names for k in (1, 2)}:
                found.add(file.relative_to(SOURCE).parts[:2])
    assert found == {("data", "download")}


class Evil:
    def __init__(self, canary):
        self.canary = str(canary)

    def __reduce__(self):
        return (os.mkdir, (self.canary,))


@pytest.fixture
def canary(tmp_path):
    return tmp_path / "the pickle was run"


@pytest.fixture(params=["pickle", "object array", "torch.save", "npz of objects"])
def evil(request, canary):
    """Bytes that make the canary when anybody unpickles them."""
    file, thing = io.BytesIO(), Evil(canary)
    if request.param == "pickle":
        pickle.dump(thing, file)
    elif request.param == "object array":
        np.save(file, np.array([thing], dtype=object), allow_pickle=True)
    elif request.param == "torch.save":
        torch.save(thing, file)
    else:
        objects = np.array([thing], dtype=object)
        np.savez(file, images=objects, labels=objects, names=objects, allow_pickle=True)
    return file.getvalue()


def test_the_canary_sings_when_it_is_unpickled(canary):
    pickle.loads(pickle.dumps(Evil(canary)))
    assert canary.exists()


def write_pets(folder):
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for n in range(2):
            Image.new("L", (9, 9), 90 * n).save(folder / name / f"{n}.png")
    return folder


def a_run(folder, config):
    folder.mkdir()
    write_settings(folder, *prepared(config))
    save_checkpoint(folder / "checkpoints", 3, {"step": 3, "weights": torch.ones(2)})
    for name in ("metrics.jsonl", "events.jsonl"):
        (folder / name).write_text("")
    return folder


@pytest.mark.parametrize(
    "name",
    ["config.toml", "checkpoints/step-3/state.json", "checkpoints/step-3/tensors.safetensors"],
)
def test_a_pickle_in_a_runs_folder_is_refused(name, evil, canary, tmp_path, config, capsys):
    run = a_run(tmp_path / "run", config)
    (run / name).write_bytes(evil)
    assert main(["resume", str(run)]) == 1
    said = capsys.readouterr().err
    assert str(run / name) in said or "step-3 is damaged" in said
    assert not canary.exists()


SETTINGS = ["method", "learner", "backbone", "optim.name", "memory.rule", "replay.sampler"]
SETTINGS += ["detection.mode", "detection.features"]


def test_the_list_of_settings_that_may_name_code_is_whole():
    kinds = get_args(registry.Kind)
    assert len(kinds) == len(SETTINGS), kinds


@pytest.mark.parametrize("setting", SETTINGS)
def test_code_that_a_foreign_folder_names_is_not_loaded(setting, canary, tmp_path, config, capsys):
    run = a_run(tmp_path / "run", config)
    evil = run / "evil.py"
    evil.write_text(f"import os\nos.mkdir({str(canary)!r})\nclass Evil:\n    pass\n")
    *group, name = setting.split(".")
    table = tomllib.loads((run / "config.toml").read_text())
    (table[group[0]] if group else table)[name] = f"{evil}:Evil"
    (run / "config.toml").write_text(to_toml(table))
    assert main(["resume", str(run)]) == 2
    assert "was not loaded" in capsys.readouterr().err
    words = ["run", "--config", str(run / "config.toml"), "--out", str(tmp_path), "--name", "x"]
    assert main(words) == 2
    assert "was not loaded" in capsys.readouterr().err
    assert main(["report", str(run)]) in (0, 1)
    assert not canary.exists()


@pytest.mark.parametrize("name", ["summary.json", "metrics.jsonl", "events.jsonl", "grid.json"])
def test_a_pickle_where_a_report_reads_is_refused(name, evil, canary, tmp_path, config):
    run = a_run(tmp_path / "run", config)
    (run / name).write_bytes(evil + b"\n")
    assert main(["report", str(run)]) in (0, 1)
    assert not canary.exists()


@pytest.mark.parametrize("name", ["pack.json", "images.npy"])
def test_a_pickle_in_a_pack_is_refused(name, evil, canary, tmp_path, capsys):
    rows = [(n, "train", np.zeros((2, 8, 8, 1), np.uint8)) for n in ("a", "b")]
    write_pack(tmp_path / "p", "p", rows, source="here", licence="CC0")
    (tmp_path / "p" / name).write_bytes(evil)
    assert main(["data", "verify", str(tmp_path / "p")]) == 1
    assert "damaged" in capsys.readouterr().out
    assert not canary.exists()


@pytest.mark.parametrize(
    "name", ["a.npz", "a.zip", "a.tar", "a.tgz", "a.tar.gz", "a.pkl", "train.csv", "a.txt"]
)
@pytest.mark.parametrize("kind", ["folder", "npz", "miniimagenet", "quickdraw"])
def test_a_pickle_offered_as_a_dataset_is_refused(kind, name, evil, canary, tmp_path, capsys):
    (tmp_path / name).write_bytes(evil)
    words = ["data", "import", kind, str(tmp_path / name), "--out", str(tmp_path / "data")]
    assert main([*words, "--size", "8", "--workers", "1"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert not canary.exists()
    assert not (tmp_path / "data").exists() or not any((tmp_path / "data").iterdir())


TEXTS = {
    "cub": ["images.txt", "image_class_labels.txt", "classes.txt", "images/a/1.jpg"],
    "aircraft": ["data/images_variant_train.txt", "data/images/1.jpg"],
    "miniimagenet": ["train.csv", "images/n0153282900000001.jpg", "mini-imagenet-cache-train.pkl"],
    "omniglot": ["images_background/Greek/character01/1.png", "images_background.zip"],
    "quickdraw": ["simplified/cat.ndjson", "numpy_bitmap/cat.npy"],
    "necessities": ["Necessities/Acme/1.jpg", "train_images_root.txt"],
    "folder": ["cat/1.png", "dog/1.gif", "fox/1.tiff", "owl/1.webp"],
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_pickle_as_every_file_of_a_dataset_is_refused(kind, evil, canary, tmp_path, capsys):
    for name in TEXTS[kind]:
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(evil)
    words = ["data", "import", kind, str(tmp_path / "source"), "--out", str(tmp_path / "data")]
    assert main([*words, "--size", "8", "--workers", "1"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert not canary.exists()


def test_a_pickle_as_a_picture_a_manifest_a_benchmark_or_vectors_is_refused(
    evil, canary, tmp_path, capsys
):
    with pytest.raises(UnreadableImageError):
        decode(evil, Pictures(8, 3))
    (tmp_path / "x.png").write_bytes(evil)
    part = {"a": ["x.png"], "b": ["x.png"]}
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"support": part, "query": part}))
    for name in ("tasks.jsonl", "bad.jsonl"):
        (tmp_path / "bad.jsonl").write_bytes(evil)
        stream = ManifestStream(tmp_path / name, TaskGeometry(2, 1, 1), on_bad="skip")
        assert list(stream) == []
        assert stream.bad_lines
    for words in (
        ["run", "--benchmark", tmp_path / "b.toml", "--out", tmp_path],
        ["run", "--config", tmp_path / "b.toml", "--out", tmp_path],
        ["compare", "--grid", tmp_path / "b.toml", "--out", tmp_path],
        ["detect", tmp_path / "b.npy"],
    ):
        for name in ("b.toml", "b.npy"):
            (tmp_path / name).write_bytes(evil)
        assert main([str(word) for word in words]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
    assert not canary.exists()


def test_an_archive_with_a_pickle_among_its_pictures_runs_nothing(canary, tmp_path):
    pets = write_pets(tmp_path / "pets")
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as archive:
        for path in pets.rglob("*.png"):
            archive.write(path, path.relative_to(pets))
        archive.writestr("cat/evil.png", pickle.dumps(Evil(canary)))
        archive.writestr("__init__.pkl", pickle.dumps(Evil(canary)))
    words = ["data", "import", "folder", str(tmp_path / "pets.zip"), "--out", str(tmp_path / "d")]
    assert main([*words, "--size", "8", "--workers", "1"]) == 0
    assert not canary.exists()
