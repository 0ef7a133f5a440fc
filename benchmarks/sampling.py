"""Drawing tasks: ours against easyfsl and a plain torch DataLoader.

    python benchmarks/sampling.py

Both draw 5-way 5-shot 15-query tasks at 84 px from the same uint8 images, and hand out uint8 (a
favour to the peer, whose users mostly turn each image into floats first). easyfsl gets its images
as one tensor in memory and a torch DataLoader; ours come from the memory map, two tasks a draw as
in a stream. The plain DataLoader has a batch sampler of ten lines. Repetitions are interleaved and
medians compared. Also said is the share of a training step that waits for data. easyfsl is
installed into `.bench/peers` by this script.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from bench_table import Row
from metadrift.data.pack import Pack
from metadrift.data.sampler import TaskSampler
from metadrift.learners import make_learner
from metadrift.streams import Benchmark, Segment, TaskStream
from metadrift.streams.prefetch import Prefetch
from metadrift.tasks import TaskGeometry
from turns import in_turns, ratio
from workload import noise_pack

PEERS = Path(__file__).parent.parent / ".bench" / "peers"
TASKS, ROUNDS = 40, 9


def main() -> None:
    print("| drawing tasks | times ours |\n|---|---|")
    for row in rows(quick=False):
        print(f"| {row.name} | {'-' if row.ratio is None else f'{row.ratio:.3g}'} {row.note} |")


def rows(quick: bool) -> list[Row]:
    """For `make bench`."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pack = noise_pack(Path(folder, "noise"), 84, 128, 100)
        geometry = TaskGeometry(ways=5, shots=5, queries=15)
        ours = TaskSampler(pack, "train", geometry)
        rng = np.random.default_rng(0)
        works: dict[str, Callable[[], object]] = {
            "ours": lambda: use(ours.draw(2, rng) for _ in range(TASKS // 2))
        }
        data = Images(pack)
        for name, workers in (("easyfsl", 0), ("easyfsl, 2 workers", 2)):
            loader = easyfsl_loader(data, geometry, workers)
            works[name] = lambda loader=loader: use(loader)
        plain = DataLoader(data, batch_sampler=PlainSampler(data.labels, geometry, rng))
        works["DataLoader"] = lambda: use(plain)
        seconds = in_turns(works, 2 if quick else ROUNDS)
        each = {name: ratio(spent, seconds["ours"]) for name, spent in seconds.items()}
        found = [Row(n, f"drawing tasks by {n} / ours", each[n]) for n in each if n != "ours"]
        waits = share(pack, 3 if quick else 15)
        return [*found, Row("share of a step", "waiting for data / a ProtoNet step, 84 px", waits)]


def share(pack: Pack, steps: int) -> float:
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


class Images(Dataset):
    """A pack's training classes in memory, image by image, as torch's own tools want them."""

    def __init__(self, pack: Pack) -> None:
        images = torch.from_numpy(np.array(pack.images)).permute(0, 3, 1, 2).contiguous()
        rows = [
            (row, c)
            for c in pack.classes("train")
            for row in range(pack.class_offsets[c], pack.class_offsets[c + 1])
        ]
        self.images = images[[row for row, _ in rows]]
        self.labels = [c for _, c in rows]

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.images[index], self.labels[index]

    def __len__(self) -> int:
        return len(self.labels)

    def get_labels(self) -> list[int]:
        return self.labels


class PlainSampler:
    """The numbers of a task's images, task after task, as one would write it in a minute."""

    def __init__(self, labels: list[int], geometry: TaskGeometry, rng: np.random.Generator) -> None:
        self.of = {c: np.flatnonzero(np.array(labels) == c) for c in set(labels)}
        self.geometry, self.rng = geometry, rng

    def __len__(self) -> int:
        return TASKS

    def __iter__(self) -> Iterator[list[int]]:
        g = self.geometry
        for _ in range(TASKS):
            classes = self.rng.choice(list(self.of), g.ways, replace=False)
            each = [self.rng.choice(self.of[c], g.images_per_class, replace=False) for c in classes]
            yield np.concatenate(each).tolist()


def easyfsl_loader(data: Images, geometry: TaskGeometry, workers: int) -> DataLoader:
    tasks = easyfsl_sampler()(data, geometry.ways, geometry.shots, geometry.queries, n_tasks=TASKS)
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


if __name__ == "__main__":
    main()
