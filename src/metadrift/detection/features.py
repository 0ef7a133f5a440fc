"""Features of a task batch for the detector: one float64 vector per step.

All of them look at support examples only. A vector need not be scaled: the detectors standardise
each dimension themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from metadrift import registry
from metadrift.detection.config import DetectionConfig
from metadrift.detection.projection import Projection
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import ExampleKind, Pictures
from metadrift.randomness import Purpose, generator, torch_generator
from metadrift.tasks import TaskBatch

_SIZE = 28  # larger images are averaged down towards this first: cost, and one scale of texture
_FILTERS = 16


class FeatureExtractor(ABC):
    """TaskBatch, and the learner's mean support embedding [T, D] where there is one -> [D].

    Custom features inherit from it and write `__call__`. Several processes take the mean of their
    vectors.
    """

    def __init__(self, config: DetectionConfig | None = None) -> None:  # noqa: B027
        """Custom features are made with the settings of detection."""

    uses_embedding: bool = False
    """True if it looks at the learner's embedding."""

    @abstractmethod
    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        """The vector of the step."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Go on where `state_dict` was called."""


def make_features(
    config: DetectionConfig, example: ExampleKind, options: Mapping[str, Any] | None = None
) -> FeatureExtractor:
    """The extractor that `config.features` names, for examples of this kind.

    `options` are those of a plug-in.
    """
    config = config.resolved()
    if config.context:
        if config.features == "paper_z":
            raise UsageError(
                "the paper's z has no room for a context: leave --detection.context out"
            )
        plain = replace(config, context=False)
        return WithContext(make_features(plain, example, options))
    if config.features not in registry.built_in("features"):
        kind = registry.subclass("features", config.features, FeatureExtractor)
        return registry.made(kind, config, options=options)
    network = NetworkFeatures(config.feature_dim, config.seed)
    if config.features == "network":
        return network
    if config.features == "paper_z":
        return PaperFeatures(Projection(config.lags, config.alpha))
    frozen = frozen_features(example, config.feature_dim, config.seed)
    return BothFeatures(frozen, network) if config.features == "both" else frozen


def frozen_features(example: ExampleKind, dim: int = 64, seed: int = 0) -> FeaturesOfExamples:
    """The features that never change, for examples of this kind."""
    if isinstance(example, Pictures):
        return FrozenFeatures(example.channels, dim, seed)
    return MeanFeatures(dim, seed)


class FeaturesOfExamples(FeatureExtractor):
    """Features that look at nothing but the support examples."""

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return self.of(tasks.support.flatten(0, 1))

    @abstractmethod
    def of(self, examples: Tensor) -> NDArray[np.float64]:
        """The vector of some examples, [n, *example]."""


class FrozenFeatures(FeaturesOfExamples):
    """Mean support features of a small random network that never changes.

    They cannot drift while the learner trains. Two strided convolutions with random zero-mean
    filters (they see texture, not brightness) and, beside them, each channel's mean, spread and
    mean absolute gradients; averaged over places, images and tasks.

    Parameters
    ----------
    channels
        1 or 3.
    dim
        Length of the vector, at least 40.
    seed
        The filters follow from it.

    Examples
    --------
    >>> from metadrift.tasks import TaskGeometry
    >>> images = torch.zeros(2, 10, 3, 28, 28, dtype=torch.uint8)
    >>> FrozenFeatures(channels=3)(TaskBatch(images, TaskGeometry(queries=1))).shape
    (64,)
    """

    def __init__(self, channels: int, dim: int = 64, seed: int = 0) -> None:
        statistics = 4 * channels + (channels - 1)
        if channels not in (1, 3) or dim < 40:
            raise MetadriftError(
                f"frozen features need 1 or 3 channels and a dim of at least 40, "
                f"not channels={channels}, dim={dim}"
            )
        self.channels = channels
        self.dim = dim
        drawn = torch_generator(seed, Purpose.FROZEN_FILTERS)
        self._first = _filters(_FILTERS, channels, 5, drawn)
        self._second = _filters(dim - _FILTERS - statistics, _FILTERS, 3, drawn)

    @torch.no_grad()
    def of(self, examples: Tensor) -> NDArray[np.float64]:
        if examples.shape[1] != self.channels:
            raise MetadriftError(
                f"these features were made for {self.channels} channels; "
                f"the tasks have {examples.shape[1]}"
            )
        x = examples.to("cpu", torch.float32) / 255
        factor = min(x.shape[-2:]) // _SIZE
        if factor > 1:
            x = F.avg_pool2d(x, factor)
        first = F.relu(F.conv2d(x, self._first, stride=3, padding=2))
        second = F.relu(F.conv2d(first, self._second, stride=2, padding=1))
        parts = [first.mean((0, 2, 3)), second.mean((0, 2, 3)), *_statistics(x)]
        return torch.cat(parts).double().numpy()


class MeanFeatures(FeaturesOfExamples):
    """The mean of the support examples themselves: the frozen features of vectors and arrays.

    A mean longer than `dim` goes through a fixed random projection.

    Examples
    --------
    >>> from metadrift.tasks import TaskGeometry
    >>> tasks = TaskBatch(torch.ones(2, 10, 3), TaskGeometry(queries=1))
    >>> MeanFeatures()(tasks)
    array([1., 1., 1.])
    """

    def __init__(self, dim: int = 64, seed: int = 0) -> None:
        self._shorten = _RandomProjection(dim, seed)

    def of(self, examples: Tensor) -> NDArray[np.float64]:
        given = examples.detach().to("cpu", torch.float32)
        return self._shorten(given.flatten(1).mean(0).double().numpy())


class NetworkFeatures(FeatureExtractor):
    """The learner's own mean support embedding, averaged over tasks.

    An embedding longer than `dim` goes through a fixed random projection, so that a step's cost
    does not grow with the network. It drifts while the learner trains.
    """

    uses_embedding = True

    def __init__(self, dim: int = 64, seed: int = 0) -> None:
        self._shorten = _RandomProjection(dim, seed)

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return self._shorten(_mean_embedding(embedding))


class BothFeatures(FeatureExtractor):
    """Frozen and network features side by side, of about the same length each."""

    uses_embedding = True

    def __init__(self, frozen: FeatureExtractor, network: NetworkFeatures) -> None:
        self.frozen = frozen
        self.network = network

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return np.concatenate([self.frozen(tasks), self.network(tasks, embedding)])


class WithContext(FeatureExtractor):
    """Other features, and the mean of the tasks' contexts beside them."""

    def __init__(self, features: FeatureExtractor) -> None:
        self.features = features
        self.uses_embedding = features.uses_embedding

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        if tasks.context is None:
            raise MetadriftError(
                "detection is set to use the tasks' context, but these tasks have none: give "
                "TaskBatch a context, or leave --detection.context out"
            )
        context = tasks.context.detach().to("cpu", torch.float64).mean(0).numpy()
        return np.concatenate([self.features(tasks, embedding), context])

    def state_dict(self) -> dict[str, Any]:
        return self.features.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.features.load_state_dict(state)


class PaperFeatures(FeatureExtractor):
    """The paper's projected space: z_t of the learner's mean support embedding o_t."""

    uses_embedding = True

    def __init__(self, projection: Projection) -> None:
        self.projection = projection

    def __call__(self, tasks: TaskBatch, embedding: Tensor | None = None) -> NDArray[np.float64]:
        return self.projection.update(_mean_embedding(embedding))

    def state_dict(self) -> dict[str, Any]:
        return self.projection.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.projection.load_state_dict(state)


class _RandomProjection:
    """A vector longer than `dim` times a fixed random matrix; a shorter one unchanged."""

    def __init__(self, dim: int, seed: int) -> None:
        self.dim = dim
        self.seed = seed
        self._project: NDArray[np.float64] | None = None

    def __call__(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        if len(vector) <= self.dim:
            return vector
        if self._project is None or len(self._project) != len(vector):
            rng = generator(self.seed, Purpose.NETWORK_PROJECTION)
            self._project = rng.standard_normal((len(vector), self.dim)) / np.sqrt(len(vector))
        return vector @ self._project


def _mean_embedding(embedding: Tensor | None) -> NDArray[np.float64]:
    if embedding is None:
        raise MetadriftError(
            "network features need the learner's embedding [T, D]; "
            "features 'frozen' work without a learner"
        )
    # Detached: otherwise the moving averages would keep every step's graph alive.
    return embedding.detach().to("cpu", torch.float64).flatten(1).mean(0).numpy()


def _filters(out: int, into: int, size: int, generator: torch.Generator) -> Tensor:
    weight = torch.randn(out, into, size, size, generator=generator, dtype=torch.float32)
    weight -= weight.mean((1, 2, 3), keepdim=True)
    return F.normalize(weight.flatten(1)).view_as(weight)


def _statistics(x: Tensor) -> list[Tensor]:
    """Of images [n, C, H, W]: mean, spread, two gradients, and differences between channels."""
    across = (x[..., :, 1:] - x[..., :, :-1]).abs().mean((0, 2, 3))
    down = (x[..., 1:, :] - x[..., :-1, :]).abs().mean((0, 2, 3))
    places = x.flatten(2)
    spread = (places - places.mean(2, keepdim=True)).square().mean(2).sqrt().mean(0)  # std is slow
    colour = (x[:, 1:] - x[:, :-1]).abs().mean((0, 2, 3))
    return [x.mean((0, 2, 3)), spread, across, down, colour]
