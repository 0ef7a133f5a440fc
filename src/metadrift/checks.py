"""Generic checks for your own parts, as scikit-learn has them for estimators.

Call one on a class. It returns if all is well, and raises AssertionError with one sentence that
names what is broken. This package's own parts pass the same checks.

    from metadrift.checks import check_method

    check_method(MyMethod)
"""

from __future__ import annotations

import gc
import math
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from metadrift import registry
from metadrift.data.pack import SPLITS, Pack, Split, write_pack
from metadrift.detection import ChangeDetector, DetectionConfig
from metadrift.detection.features import FeatureExtractor
from metadrift.errors import MetadriftError
from metadrift.examples import Pictures
from metadrift.learners import MetaLearner, find_learner, make_learner
from metadrift.memory import Arrival, Buffer, Memory, ReservoirMemory
from metadrift.methods.base import Method, NonFiniteError, StepRecord
from metadrift.methods.make import find_method
from metadrift.methods.replaying import ReplayingMethod
from metadrift.replay import ReplaySampler
from metadrift.runs.build import Parts, build
from metadrift.runs.checkpoint import load_checkpoint, save_checkpoint
from metadrift.runs.config import LearnerConfig, RunConfig
from metadrift.runs.plugins import HandedIn
from metadrift.streams import Benchmark, TaskStream, Truth
from metadrift.tasks import TaskBatch, TaskGeometry

Options = Mapping[str, Any]

_GEOMETRY = TaskGeometry(ways=3, shots=2, queries=2)


def check_method(kind: type[Method], options: Options | None = None) -> None:
    """Check a class of method in a small run of two domains."""
    find_method(kind)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        benchmark = _two_domains(folder)

        def parts() -> Parts:
            config = RunConfig(
                str(benchmark),
                ways=3,
                queries=2,
                method=f"{kind.__module__}:{kind.__name__}",
                learn=LearnerConfig(4),
                options=dict(options or {}),
                device="cpu",
            )
            return build(config, folder, given=HandedIn(method=kind))

        _check_steps(kind.__name__, parts())
        _check_same_again(kind.__name__, parts, folder)
        _check_nan(kind.__name__, parts())


def check_learner(kind: type[MetaLearner], options: Options | None = None) -> None:
    """Check a class of learner on small tasks."""
    said, own = find_learner(kind).__name__, registry.own_options(kind, options or {})

    def make(seed: int = 0) -> MetaLearner:
        more = {} if own is None else {"options": own}
        return make_learner(kind, image_size=12, ways=3, generator=seed, filters=4, **more)

    with _no_global_randomness(said):
        learner = make()
        tasks = _tasks(0, 3)
        outcome = learner(tasks)
    shapes = [list(part.shape) for part in (outcome.loss, outcome.importance, outcome.logits)]
    _demand(shapes == [[3], [3], [3, 6, 3]], f"{said} gives loss, importance and logits {shapes}")
    _demand(bool(outcome.loss.isfinite().all()), f"the loss of {said} is not finite")
    outcome.loss.sum().backward()
    for name, parameter in learner.named_parameters():
        gradient = parameter.grad
        _demand(gradient is not None, f"the loss of {said} does not depend on its weight {name}")
        assert gradient is not None
        _demand(bool(gradient.isfinite().all()), f"{said} has a gradient at {name} not finite")
    with torch.no_grad():
        together, alone = make().double()(tasks), make().double()(tasks[:1])
    near = torch.allclose(together.logits[0], alone.logits[0])
    _demand(near, f"in {said} the logits of a task depend on the other tasks of its batch")
    support, labels = tasks.support[:, :4], torch.tensor([0, 0, 1, 2])
    logits = learner.predict(support, labels, tasks.query)
    _demand(list(logits.shape) == [3, 6, 3], f"{said} cannot predict with uneven classes")
    other = make(seed=1)
    other.load_state_dict(learner.state_dict())
    again = other.predict(tasks.support, tasks.support_labels, tasks.query)
    same = torch.equal(again, learner.predict(tasks.support, tasks.support_labels, tasks.query))
    _demand(same, f"{said} keeps something that its state_dict does not hold")
    _check_learns(said, make(), tasks)


def check_memory(kind: type[Memory], options: Options | None = None) -> None:
    """Check a class of memory on 60 small batches of three labels."""
    registry.checked(kind, Memory)
    said = kind.__name__

    def make(seed: int) -> Memory:
        buffer = Buffer(8, 1, _GEOMETRY, Pictures(12, 3))
        return registry.made(kind, buffer, np.random.default_rng(seed), options=options)

    def offer(memory: Memory, steps: range) -> list[int | None]:
        taken = []
        for step in steps:
            similarity = math.sin(step)
            arrival = Arrival(_tasks(step, 1), step // 20, 1 + step % 5, similarity=similarity)
            slot = memory.offer(arrival)
            taken.append(slot)
            _demand(len(memory) <= 8, f"{said} holds {len(memory)} batches in room for 8")
            _demand(
                slot is None or torch.equal(memory.buffer.get([slot]).images, arrival.tasks.images),
                f"{said} returns slot {slot} for a batch that is not stored there",
            )
            if step == 25:
                memory.relabel(22, 1)
        return taken

    with _no_global_randomness(said):
        memory = make(0)
        offer(memory, range(31))  # a prime, which no counter of a part divides
    _demand(len(memory) > 0, f"{said} took none of 31 batches")
    counted = sum(memory.counts().values())
    _demand(counted == len(memory), f"{said} holds {len(memory)} batches and counts {counted}")
    other = make(99)
    other.load_state_dict(_saved(memory.state_dict(), said))
    same = offer(memory, range(31, 60)) == offer(other, range(31, 60))
    _demand(same and _equal(memory.state_dict(), other.state_dict()), _other_state(said))


def check_sampler(kind: type[ReplaySampler], options: Options | None = None) -> None:
    """Check a class of sampler on a small memory."""
    registry.checked(kind, ReplaySampler)
    said = kind.__name__
    memory = ReservoirMemory(Buffer(6, 1, _GEOMETRY, Pictures(12, 3)), np.random.default_rng(0))

    def make() -> ReplaySampler:
        return registry.made(kind, options=options)

    def draws(sampler: ReplaySampler, rng: np.random.Generator) -> list[Any]:
        found = []
        for turn in range(20):
            sampler.stale(memory, rng)
            slots, weights = sampler.choose(memory, 4, rng)
            sampler.observe(turn % 2, 1.0 + turn % 3)
            found.append((list(slots), list(weights)))
        return found

    empty = make().choose(memory, 3, np.random.default_rng(0))
    _demand(not len(empty[0]), f"{said} draws from an empty memory")
    for step in range(6):
        memory.offer(Arrival(_tasks(step, 1), step // 3))
    with _no_global_randomness(said):
        sampler, rng = make(), np.random.default_rng(1)
        found = draws(sampler, rng)
    for slots, weights in found:
        _demand(
            len(slots) == len(weights), f"{said} gives {len(slots)} slots, {len(weights)} weights"
        )
        _demand(all(0 <= s < 6 for s in slots), f"{said} draws slot {max(slots)} of a memory of 6")
        fine = all(math.isfinite(w) and w >= 0 for w in weights)
        _demand(fine, f"{said} gives weights that are not finite numbers of at least 0: {weights}")
    chances = sampler.probabilities(memory)
    _demand(math.isclose(sum(chances.values()), 1), f"the probabilities of {said} are {chances}")
    other = make()
    other.load_state_dict(_saved(sampler.state_dict(), said))
    one, two = np.random.default_rng(2), np.random.default_rng(2)
    _demand(draws(sampler, one) == draws(other, two), _other_state(said))


def check_detector(kind: type[ChangeDetector], options: Options | None = None) -> None:
    """Check a class of change detector on a stream of vectors with a jump in the middle."""
    registry.checked(kind, ChangeDetector)
    said, rng = kind.__name__, np.random.default_rng(0)
    config = DetectionConfig(window=8, burn_in=30, seed=0)
    stream = np.concatenate([rng.normal(0, 1, (150, 4)), rng.normal(5, 1, (150, 4))])

    def make() -> ChangeDetector:
        return registry.made(kind, config, options=options)

    with _no_global_randomness(said):
        detector = make()
        changes = detector.update_many(stream[:160])
    _demand(detector.step == 160, f"{said} counts {detector.step} steps after 160 vectors")
    for change in changes:
        fine = 0 <= change.started_at <= change.at_step < 160
        _demand(fine, f"{said} reports a change outside of the stream: {change}")
    other = make()
    other.load_state_dict(_saved(detector.state_dict(), said))
    rest = [[repr(each.update(vector)) for vector in stream[160:]] for each in (detector, other)]
    _demand(rest[0] == rest[1], _other_state(said))
    try:
        make().update(np.full(4, math.nan))
    except MetadriftError:
        return
    raise AssertionError(f"{said} accepts NaN without an error")


def check_features(kind: type[FeatureExtractor], options: Options | None = None) -> None:
    """Check a class of features on small tasks."""
    registry.checked(kind, FeatureExtractor)
    said = kind.__name__

    def make() -> FeatureExtractor:
        return registry.made(kind, DetectionConfig(), options=options)

    def see(features: FeatureExtractor, steps: range) -> list[Any]:
        embeddings = (torch.full((2, 5), float(step)) for step in steps)
        return [features(_tasks(s, 2), e) for s, e in zip(steps, embeddings, strict=True)]

    with _no_global_randomness(said):
        features = make()
        seen = see(features, range(5))
    for vector in seen:
        fine = isinstance(vector, np.ndarray) and vector.ndim == 1 and vector.dtype == np.float64
        _demand(fine, f"{said} must give a float64 vector [D], not {vector!r}")
        _demand(bool(np.isfinite(vector).all()), f"{said} gives NaN or infinity")
    _demand(len({len(vector) for vector in seen}) == 1, f"{said} gives vectors of several lengths")
    other = make()
    other.load_state_dict(_saved(features.state_dict(), said))
    _demand(_equal(see(features, range(5, 9)), see(other, range(5, 9))), _other_state(said))


def _check_steps(said: str, parts: Parts) -> None:
    method, before = parts.method, _weights(parts.method)
    with _no_global_randomness(said):
        for _ in range(12):
            tasks = next(parts.stream)
            kept = tasks.images.clone()
            record = method.step(tasks)
            method.after_step()
            _demand(isinstance(record, StepRecord), f"{said}.step must give a StepRecord")
            _demand(math.isfinite(record.loss), f"{said}.step gives a loss of {record.loss}")
            _demand(torch.equal(kept, tasks.images), f"{said}.step changes the tasks it is given")
    _demand(not torch.equal(before, _weights(method)), f"{said} learns nothing: no weight moved")
    if isinstance(method, ReplayingMethod):
        held, room = len(method.memory), method.memory.capacity
        _demand(held <= room, f"{said} keeps {held} batches in a memory of {room}")
    knowing = leaks(method)
    names = sorted({type(thing).__name__ for thing in knowing})
    _demand(not knowing, f"{said} can reach the truth about domains: it holds {', '.join(names)}")


def _check_same_again(said: str, parts: Callable[[], Parts], folder: Path) -> None:
    first, second = parts(), parts()
    for _ in range(7):
        first.method.step(next(first.stream))
        next(second.stream)
    state = first.method.state_dict()
    second.method.load_state_dict(_saved(state, said))
    kept = {key: value.clone() for key, value in state.get("learner", {}).items()}
    for _ in range(5):
        one = first.method.step(next(first.stream))
        two = second.method.step(next(second.stream))
        _demand(repr(one) == repr(two), _other_state(said))
    same = torch.equal(_weights(first.method), _weights(second.method))
    _demand(same, _other_state(said))
    copied = all(torch.equal(value, state["learner"][key]) for key, value in kept.items())
    _demand(copied, f"the state_dict of {said} is no copy: it changes while the method learns")


def _check_nan(said: str, parts: Parts) -> None:
    parts.method.step(next(parts.stream))
    with torch.no_grad():
        parts.method.parameters()[0].fill_(math.nan)
    before = _weights(parts.method).nan_to_num(7)
    try:
        parts.method.step(next(parts.stream))
    except NonFiniteError:
        same = torch.equal(before, _weights(parts.method).nan_to_num(7))
        _demand(same, f"{said} moves the weights although the loss is NaN")
        return
    raise AssertionError(f"{said} continues with a loss that is NaN; `self.apply` refuses it")


def _check_learns(said: str, learner: MetaLearner, tasks: TaskBatch) -> None:
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        loss = learner(tasks).loss.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    _demand(losses[-1] < losses[0], f"training {said} on a task does not lower its loss: {losses}")


def leaks(thing: object) -> list[object]:
    """What knows the true domains and can be reached from a thing.

    Follows attributes, elements, closures and bound objects. Classes, modules and the globals of
    functions are the program, and are left out.
    """
    seen: dict[int, object] = {}
    front = [thing]
    while front:
        thing = front.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, FunctionType):
            front += [*(thing.__closure__ or ()), *(thing.__defaults__ or ())]
        else:
            front += gc.get_referents(thing)
    return [one for one in seen.values() if isinstance(one, Truth | TaskStream | Pack | Benchmark)]


def _demand(true: bool, sentence: str) -> None:
    if not true:
        raise AssertionError(sentence)


def _other_state(said: str) -> str:
    return f"{said} gives other numbers after load_state_dict: its state_dict lacks something"


@contextmanager
def _no_global_randomness(said: str) -> Iterator[None]:
    def states() -> list[str]:
        legacy = np.random.get_state()  # noqa: NPY002
        return [repr(random.getstate()), repr(legacy), repr(torch.get_rng_state().tolist())]

    before = states()
    yield
    sources = zip(("random", "numpy.random", "torch"), before, states(), strict=True)
    moved = [source for source, was, now in sources if was != now]
    _demand(
        not moved,
        f"{said} draws from the global generator of {' and '.join(moved)}; use the one passed in",
    )


def _saved(state: dict[str, Any], said: str) -> dict[str, Any]:
    """The state as it comes back from a checkpoint."""
    with tempfile.TemporaryDirectory() as place:
        try:
            saved = load_checkpoint(save_checkpoint(Path(place), 1, {"state": state}))
            return dict(saved["state"])
        except (TypeError, ValueError, MetadriftError) as error:
            raise AssertionError(
                f"the state_dict of {said} cannot be saved ({error}): it may hold tensors, arrays, "
                "numbers, text, lists and tables of them"
            ) from None


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray):
        return a.tobytes() == np.asarray(b).tobytes()
    return torch.equal(a, b) if isinstance(a, Tensor) else repr(a) == repr(b)


def _weights(method: Method) -> Tensor:
    return torch.cat([p.detach().flatten() for p in method.parameters()])


def _tasks(seed: int, tasks: int) -> TaskBatch:
    generator = torch.Generator().manual_seed(seed)
    shape = (tasks, _GEOMETRY.images_per_task, 3, 12, 12)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    return TaskBatch(images, _GEOMETRY)


def _two_domains(folder: Path) -> Path:
    """The path of a benchmark of two tiny domains, 8 steps each."""
    lines = ["memory = 5"]
    for number, domain in enumerate(("dark", "bright")):
        rng = np.random.default_rng(number)
        rows: list[tuple[str, Split, np.ndarray]] = []
        for c in range(9):
            pattern = rng.normal(60 + 120 * number, 40, (1, 12, 12, 1))
            images = (pattern + rng.normal(0, 10, (6, 12, 12, 1))).clip(0, 255).astype(np.uint8)
            rows.append((f"class{c}", SPLITS[c // 3], images))
        write_pack(folder / domain, domain, rows, source="made for a check", licence="CC0")
        lines += ["[[segments]]", f'domain = "{domain}"', "steps = 8", f'pack = "{domain}"']
    (folder / "two.toml").write_text("\n".join(lines))
    return folder / "two.toml"
