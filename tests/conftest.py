"""What tests of several rooms share: tiny domains, tasks, learners, methods and source files."""

import hashlib
import io
import os
import signal
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from PIL import Image

import metadrift
from metadrift import registry
from metadrift.detection import DetectionConfig, make_detector, make_features
from metadrift.examples import Pictures
from metadrift.learners import make_learner
from metadrift.memory import Buffer
from metadrift.methods import make_method
from metadrift.tasks import TaskBatch, TaskGeometry
from tiny_runs import write_benchmark, write_domain

# A loaded machine is no reason to fail.
settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")

# Started in the background of a shell, the tests would hand on that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Rooms whose tests run whole programs, which takes its time.
SLOW = {"e2e", "plugins", "reliability"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def no_plugin_was_loaded_by_another_test(monkeypatch):
    """A run records the code of users that its process has loaded."""
    monkeypatch.setattr(registry, "_loaded", {})


@pytest.fixture(scope="session", autouse=True)
def one_cache_for_all(request):
    """Built-in domains are made once for each state of the code that makes them."""
    digest = hashlib.sha256(Image.__version__.encode())
    room = Path(metadrift.__file__).parent / "data"
    for file in sorted([*(room / "synthetic").glob("*.py"), room / "pack.py"]):
        digest.update(file.read_bytes())
    folder = request.config.cache.mkdir(f"builtin-{digest.hexdigest()[:16]}")
    os.environ["METADRIFT_CACHE"] = str(folder)


@pytest.fixture(scope="session")
def tiny_benchmark(tmp_path_factory):
    """The path of a benchmark of three tiny domains, 40 + 30 + 50 steps, memory 8."""
    folder = tmp_path_factory.mktemp("tiny")
    write_domain(folder, "dark", 1, 50, 1)
    write_domain(folder, "middle", 2, 120, 3)
    write_domain(folder, "bright", 3, 200, 1)
    steps = {"dark": 40, "middle": 30, "bright": 50}
    return write_benchmark(folder / "tiny.toml", steps, memory=8)


@pytest.fixture
def make_tasks():
    """Random tasks: `make_tasks(tasks, ways, shots, queries, channels, size, seed)`."""

    def make(tasks=3, ways=3, shots=2, queries=2, channels=3, size=16, seed=0):
        generator = torch.Generator().manual_seed(seed)
        geometry = TaskGeometry(ways, shots, queries)
        shape = (tasks, geometry.images_per_task, channels, size, size)
        images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        return TaskBatch(images, geometry)

    return make


@pytest.fixture
def small_learner():
    """small_learner(name, ways, size, ...): a learner of four filters, always of the same seed."""

    def make(name, ways=3, size=16, normalisation="batch", filters=4, **options):
        return make_learner(
            name,
            image_size=size,
            ways=ways,
            normalisation=normalisation,
            filters=filters,
            generator=0,
            **options,
        )

    return make


GEOMETRY = TaskGeometry(ways=3, shots=1, queries=2)


@pytest.fixture
def batches():
    """Endless batches of 2 tasks; each task has its own three random patterns, plus noise."""

    def make(seed, ground=100):
        rng = np.random.default_rng(seed)
        while True:
            patterns = rng.normal(ground, 50, (2, 3, 1, 1, 12, 12))
            images = patterns + rng.normal(0, 15, (2, 3, 3, 1, 12, 12))
            images = images.clip(0, 255).astype(np.uint8)
            block = np.concatenate(
                [
                    images[:, :, :1].reshape(2, 3, 1, 12, 12),
                    images[:, :, 1:].reshape(2, 6, 1, 12, 12),
                ],
                axis=1,
            )
            yield TaskBatch(torch.from_numpy(block), GEOMETRY)

    return make


@pytest.fixture
def build_method():
    """build_method(name, learner, capacity, lr, ...): a small method for `batches`."""

    def make(name, learner="protonet", capacity=6, lr=1e-2, **options):
        torch.set_num_threads(1)
        net = make_learner(learner, image_size=12, ways=3, generator=0, filters=8)
        settings = DetectionConfig().scaled(0.05)
        dark = "replay" in options and options["replay"].dark > 0
        parts = {
            "buffer": Buffer(capacity, 2, GEOMETRY, Pictures(12, 1), logits=dark),
            "features": make_features(settings, Pictures(12, 1)),
            "detector": make_detector(settings),
        }
        optimizer = torch.optim.Adam(net.parameters(), lr=lr)
        return make_method(name, net, optimizer, seed=0, **parts | options)

    return make


@pytest.fixture(scope="session")
def picture():
    """An image file of one colour."""

    def make(colour="red", size=(20, 16), form="PNG", mode="RGB", **saving):
        file = io.BytesIO()
        Image.new(mode, size, colour).save(file, form, **saving)
        return file.getvalue()

    return make


@pytest.fixture
def store(tmp_path):
    """Write files as a folder, a zip, a tar or a tgz, and give its path."""

    def write(files, form="folder", name="data"):
        if form == "folder":
            for member, data in files.items():
                path = tmp_path / name / member
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            return tmp_path / name
        path = tmp_path / f"{name}.{form}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if form == "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for member, data in files.items():
                    archive.writestr(member, data)
            return path
        with tarfile.open(path, {"tar": "w", "tgz": "w:gz"}[form]) as archive:
            for member, data in files.items():
                info = tarfile.TarInfo(member)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return path

    return write
