"""Undo a step that makes the weights NaN or infinite."""

from __future__ import annotations

import torch
from torch import nn

from metadrift.methods.base import NonFiniteError, refuse_non_finite


class WeightGuard:
    """Restores a learner's weights when a step ends in NaN or infinity.

    Most methods refuse a loss or a gradient that is not finite before they change the weights. That
    does not cover methods with several inner steps, running averages, or a step so large that the
    weights overflow. So this keeps the weights from before the step, and restores them.

    Parameters
    ----------
    learner
        The learner whose parameters and buffers are guarded.

    Examples
    --------
    >>> learner = nn.Linear(1, 1, bias=False)
    >>> guard, before = WeightGuard(learner), learner.weight.item()
    >>> try:
    ...     with guard, torch.no_grad():
    ...         _ = learner.weight.fill_(float("inf"))
    ... except NonFiniteError as error:
    ...     print(error, learner.weight.item() == before)
    a weight became inf True
    """

    def __init__(self, learner: nn.Module) -> None:
        self._live = [t.detach() for t in (*learner.parameters(), *learner.buffers())]
        self._kept = [t.clone() for t in self._live]

    def __enter__(self) -> None:
        self._copy(self._live, self._kept)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self._refuse_overflow()
            except NonFiniteError:
                self._copy(self._kept, self._live)
                raise
        elif issubclass(kind, NonFiniteError):
            self._copy(self._kept, self._live)

    def _refuse_overflow(self) -> None:
        # If the sum is finite, all numbers are. It takes half the time of testing each number.
        sums = [t.sum() for t in self._live if t.is_floating_point()]
        refuse_non_finite(torch.stack(sums).sum().item(), "a weight")

    @staticmethod
    def _copy(source: list[torch.Tensor], target: list[torch.Tensor]) -> None:
        for a, b in zip(source, target, strict=True):
            b.copy_(a)
