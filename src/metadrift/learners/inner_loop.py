"""What ANIL and MAML share: a linear head, and a few gradient steps on the support images."""

from __future__ import annotations

from torch import Generator, nn

from metadrift.errors import MetadriftError, UsageError
from metadrift.learners.backbones import linear_head
from metadrift.learners.base import MetaLearner
from metadrift.learners.normalisation import Normalisation
from metadrift.tasks import TaskBatch


class InnerLoopLearner(MetaLearner):
    """A learner that adapts to each task by gradient steps.

    Parameters
    ----------
    ways
        Outputs of the head; every task must have as many classes.
    generator
        Where the head's weights are drawn from.
    inner_steps, inner_lr
        Gradient steps on the support images, and their learning rate; left out, it is 5/D but at
        most 0.1, since the change of a logit grows with the size D of the features.
    first_order
        Treat the inner gradients as constants: cheaper, and blind to how the weights shape them.
    """

    def __init__(
        self,
        backbone: nn.Module,
        image_size: int,
        normalisation: Normalisation,
        *,
        ways: int,
        generator: Generator,
        inner_steps: int = 5,
        inner_lr: float | None = None,
        first_order: bool = False,
    ) -> None:
        super().__init__(backbone, image_size, normalisation)
        self.head = linear_head(self.feature_size(), ways, generator)
        self.inner_steps = inner_steps
        self.inner_lr = min(0.1, 5 / self.head.in_features) if inner_lr is None else inner_lr
        self.first_order = first_order
        if self.inner_steps < 1 or not self.inner_lr > 0:
            raise UsageError(
                f"an inner loop needs at least 1 step and a learning rate above 0, "
                f"not inner_steps={self.inner_steps}, inner_lr={self.inner_lr}"
            )

    def require_fit(self, tasks: TaskBatch) -> None:
        """Refuse tasks that the outputs of the head do not fit."""
        ways, outputs = tasks.geometry.ways, self.head.out_features
        if ways != outputs:
            raise MetadriftError(
                f"the learner's head has {outputs} outputs and the tasks have {ways} ways; "
                f"make the learner with ways={ways}"
            )
