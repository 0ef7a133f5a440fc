"""A moving average of a learner's weights, for evaluation instead of the last weights."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from metadrift.learners import MetaLearner


class WeightAverage:
    """An exponential moving average of a learner's weights.

    After step n the decay is min(decay, (1 + n) / (10 + n)). So the random initial weights soon
    drop out, and a short run averages over about its last tenth. The running averages of the
    normalisation are averaged too. Training does not use the average.

    Parameters
    ----------
    learner
        The learner whose weights are averaged. It is copied.
    decay
        Above 0 and below 1; 0.999 averages over about the last 1000 steps.

    Examples
    --------
    >>> from metadrift.learners import make_learner
    >>> learner = make_learner("protonet", image_size=8, ways=2, generator=0, filters=2)
    >>> average, weight = WeightAverage(learner, 0.5), next(learner.parameters())
    >>> for value in (1.0, 2.0, 3.0):
    ...     _ = weight.data.fill_(value)
    ...     average.update(learner)
    >>> round(next(average.learner.parameters()).mean().item(), 3)
    2.705
    """

    def __init__(self, learner: MetaLearner, decay: float) -> None:
        def mix(averages: Any, weights: Any, n: Tensor | int) -> None:
            keep = min(decay, (1 + int(n)) / (10 + int(n)))
            if averages[0].is_floating_point():
                torch._foreach_lerp_(averages, weights, 1 - keep)
            else:  # a counter
                torch._foreach_copy_(averages, weights)

        self._model = AveragedModel(learner, multi_avg_fn=mix, use_buffers=True)

    @property
    def learner(self) -> MetaLearner:
        """The learner with the averaged weights."""
        return cast(MetaLearner, self._model.module)

    @torch.no_grad()
    def update(self, learner: MetaLearner) -> None:
        """Update the average with the weights after a step."""
        self._model.update_parameters(learner)

    def state_dict(self) -> dict[str, Any]:
        return {
            "learner": copied_weights(self.learner),
            "updates": int(self._model.n_averaged),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state["learner"])
        self._model.n_averaged.fill_(int(state["updates"]))


def copied_weights(learner: nn.Module) -> dict[str, Tensor]:
    """The weights as they are now, for a checkpoint."""
    return {name: value.detach().clone() for name, value in learner.state_dict().items()}


def evaluated_weights(method: dict[str, Any]) -> dict[str, Tensor]:
    """The weights that evaluation uses, from the saved state of a method."""
    source = method.get("average", method)
    return cast(dict[str, Tensor], source["learner"])
