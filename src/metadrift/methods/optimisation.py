"""Optimisers by name, the learning-rate schedule, and their state in a checkpoint."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from metadrift import registry
from metadrift.errors import MetadriftError, UsageError
from metadrift.methods.config import OptimConfig
from metadrift.storage.reading import parse_toml
from metadrift.storage.tables import did_you_mean


def make_optimizer(config: OptimConfig, lr: float, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The optimiser of the settings.

    Examples
    --------
    >>> config = OptimConfig("SGD", options=("momentum=0.9", "nesterov=true"))
    >>> optimizer = make_optimizer(config, 0.1, [nn.Parameter(torch.zeros(1))])
    >>> group = optimizer.param_groups[0]
    >>> type(optimizer).__name__, group["lr"], group["momentum"], group["nesterov"]
    ('SGD', 0.1, 0.9, True)
    """
    parameters = list(parameters)
    if not parameters:
        raise UsageError(
            "this learner has no weights to learn: take --learner ridge or anil, whose heads learn,"
            " or --backbone mlp; `metadrift data difficulty` scores the nearest class mean itself"
        )
    kind = _optimizer_class(config.name)
    options = _options(config.options)
    if config.weight_decay:
        options["weight_decay"] = config.weight_decay
    known = inspect.signature(kind).parameters
    taken = [name for name in known if name not in ("params", "lr")]
    for name in options:
        if name == "lr":
            raise UsageError("the learning rate is --lr: leave lr out of --optim.options")
        if name not in taken:
            hint = did_you_mean(name, taken) or f"; it has {', '.join(taken)}"
            raise UsageError(f"{config.name} has no option {name!r}{hint}")
    try:
        made: Optimizer = kind(parameters, lr=lr, **options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{config.name} cannot be made with these options: {error}") from None
    return made


def _optimizer_class(name: str) -> Any:
    if registry.is_reference(name):
        return registry.subclass("optimizers", name, Optimizer)
    known = {
        kind.__name__: kind
        for kind in vars(torch.optim).values()
        if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer
    }
    del known["LBFGS"], known["SparseAdam"]  # they need a closure, and sparse gradients
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}"
        raise UsageError(f"torch.optim has no optimiser {name!r} that can be used here{hint}")
    return known[name]


def _options(words: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not name.isidentifier() or not value:
            raise UsageError(f"--optim.options takes NAME=VALUE, such as momentum=0.9, not {word}")
        value = value.lower() if value in ("True", "False") else value
        try:
            found |= parse_toml(f"{name} = {value}", word)
        except MetadriftError:
            raise UsageError(
                f"--optim.options {word}: {value} is no number, true, false, list or text in quotes"
            ) from None
    return found


class Schedule:
    """Sets the learning rate by the number of steps.

    Parameters
    ----------
    optimizer
        The optimiser whose rates are set. Its present rates are the highest.
    config
        The shape, and the steps of the warm-up.
    steps
        The steps after which a falling rate reaches 0.

    Examples
    --------
    >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule, rates = Schedule(optimizer, OptimConfig(schedule="linear", warmup=2), 6), []
    >>> for _ in range(7):
    ...     rates.append(optimizer.param_groups[0]["lr"])
    ...     schedule.step()
    >>> rates
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def __init__(self, optimizer: Optimizer, config: OptimConfig, steps: int) -> None:
        self._optimizer, self._config, self._steps = optimizer, config, steps
        self.highest = [float(group["lr"]) for group in optimizer.param_groups]
        self._done = -1
        self.step()

    def step(self) -> None:
        """Set the rates for the next step."""
        self._done += 1
        share = self._share(self._done)
        for group, highest in zip(self._optimizer.param_groups, self.highest, strict=True):
            group["lr"] = highest * share

    def _share(self, done: int) -> float:
        if done < self._config.warmup:
            return (done + 1) / self._config.warmup
        falling = max(self._steps - self._config.warmup, 1)
        way = min((done - self._config.warmup) / falling, 1.0)
        if self._config.schedule == "cosine":
            return (1 + math.cos(math.pi * way)) / 2
        return 1 - way if self._config.schedule == "linear" else 1.0

    def state_dict(self) -> dict[str, Any]:
        return {"done": self._done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._done = int(state["done"])  # the rates themselves come with the optimiser's state


def optimizer_state(optimizer: Optimizer) -> dict[str, Any]:
    """An optimiser's state with text keys and without aliases, as checkpoints need it."""
    state = optimizer.state_dict()
    return {
        "state": {str(index): _copies(entry) for index, entry in state["state"].items()},
        "groups": [
            _copies({name: value for name, value in group.items() if name != "params"})
            for group in state["param_groups"]
        ],
    }


def load_optimizer_state(optimizer: Optimizer, saved: dict[str, Any]) -> None:
    groups = optimizer.state_dict()["param_groups"]
    for group, settings in zip(groups, saved["groups"], strict=True):
        for name, value in settings.items():
            # A checkpoint has lists instead of tuples.
            group[name] = tuple(value) if isinstance(group.get(name), tuple) else value
    entries = {int(index): entry for index, entry in saved["state"].items()}
    optimizer.load_state_dict({"state": entries, "param_groups": groups})


def _copies(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: v.clone() if isinstance(v, Tensor) else v for k, v in entry.items()}
