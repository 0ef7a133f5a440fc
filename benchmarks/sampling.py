"""Drawing tasks: ours against easyfsl's TaskSampler, and the share of a training step.

    python benchmarks/sampling.py

Both draw 5-way 5-shot 15-query tasks at 84 px from the same uint8 images, and hand out uint8 (a
favour to the peer, whose users mostly turn each image into floats first). easyfsl gets its images
as one tensor in memory and a torch DataLoader; ours come from the memory map, two tasks a draw as
in a stream. Repetitions are interleaved and medians compared. The peer is installed into
`.bench/peers` by this script.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from metadrift.domains.pack import Pack, open_pack, write_pack
from metadrift.domains.sampler import TaskSampler
from metadrift.learners import make_learner
from metadrift.streams import Benchmark, Segment, TaskStream
from metadrift.streams.prefetch import Prefetch
from metadrift.tasks import TaskGeometry

PEERS = Path(__file__).parent.parent / ".bench" / "peers"
TASKS, ROUNDS = 40, 9


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pack = made_pack(Path(folder))
        geometry = TaskGeometry(ways=5, shots=5, queries=15)
        ours = TaskSampler(pack, "train", geometry)
        rng = np.random.default_rng(0)
        loaders = {workers: easyfsl_loader(pack, geometry, workers) for workers in (0, 2)}
        times: dict[str, list[float]] = {"ours": [], "easyfsl": [], "easyfsl, 2 workers": []}
        for _ in range(ROUNDS):
            times["ours"].append(timed(lambda: use(ours.draw(2, rng) for _ in range(TASKS // 2))))
            times["easyfsl"].append(timed(lambda: use(loaders[0])))
            times["easyfsl, 2 workers"].append(timed(lambda: use(loaders[2])))
        print("| drawing tasks | times ours |\n|---|---|")
        for name, seconds in times.items():
            print(f"| {name} | {median(seconds) / median(times['ours']):.1f} |")
        print(f"\nshare of a ProtoNet step (84 px, 2 tasks) that data takes: {share(pack):.2%}")


def share(pack: Pack, steps: int = 25) -> float:
    """The part of a training step spent waiting for the next batch, with prefetch on."""
    geometry = TaskGeometry(ways=5, shots=5, queries=10)
    plan = Benchmark("one", "one", (Segment(pack.name, steps + 3),), 10, 2, {})
    learner = make_learner("protonet", image_size=84, ways=5, generator=0)
    optimizer = torch.optim.Adam(learner.parameters())
    waited = worked = 0.0
    with Prefetch(TaskStream(plan, {pack.name: pack}, geometry, seed=0)) as stream:
        for step in range(steps + 3):
            begin = time.perf_counter()
            tasks = next(stream)
            got = time.perf_counter()
            optimizer.zero_grad()
            learner(tasks).loss.mean().backward()
            optimizer.step()
            if step >= 3:  # the first steps warm up
                waited += got - begin
                worked += time.perf_counter() - begin
    return waited / worked


def made_pack(folder: Path) -> Pack:
    """64 classes of 100 random images: what they show does not matter here."""
    rng = np.random.default_rng(0)
    rows = (
        (f"class{c}", "train", rng.integers(0, 256, (100, 84, 84, 3), np.uint8)) for c in range(64)
    )
    return open_pack(write_pack(folder / "random", "random", rows, source="random", licence="CC0"))


def easyfsl_loader(pack: Pack, geometry: TaskGeometry, workers: int) -> DataLoader:
    sampler = easyfsl_sampler()

    class Images(Dataset):
        images = torch.from_numpy(np.array(pack.images)).permute(0, 3, 1, 2).contiguous()
        labels = np.repeat(np.arange(len(pack.class_names)), np.diff(pack.class_offsets)).tolist()

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            return self.images[index], self.labels[index]

        def __len__(self) -> int:
            return len(self.labels)

        def get_labels(self) -> list[int]:
            return self.labels

    data = Images()
    tasks = sampler(data, geometry.ways, geometry.shots, geometry.queries, n_tasks=TASKS)
    return DataLoader(
        data, batch_sampler=tasks, num_workers=workers, collate_fn=tasks.episodic_collate_fn
    )


def easyfsl_sampler() -> type:
    """easyfsl's TaskSampler, without torchvision, which only its other parts need."""
    if not (PEERS / "easyfsl").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", PEERS]
        subprocess.run([*pip, "easyfsl==1.5.0", "tqdm", "pandas", "pytz"], check=True)
    sys.path.append(str(PEERS))
    for name, attributes in {
        "torchvision": ["transforms", "datasets"],
        "torchvision.transforms": [],
        "torchvision.datasets": ["ImageFolder"],
    }.items():
        module = sys.modules.setdefault(name, types.ModuleType(name))
        for attribute in attributes:
            setattr(module, attribute, type(attribute, (), {}))
    # easyfsl calls this with an argument that today's torch no longer takes.
    Sampler.__init__ = lambda self, data_source=None: None
    from easyfsl.samplers import TaskSampler as Peer

    return Peer


def use(batches) -> None:
    """Take each batch and let it go, as training does."""
    for _ in batches:
        pass


def timed(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
