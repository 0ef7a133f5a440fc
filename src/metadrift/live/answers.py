"""Answers to one few-shot question of any shape: any number of classes, any shots of each.

Training tasks all have one geometry; a person's pictures have none. So each learner's rule is
applied here to its features directly. Where classes have different numbers of pictures, each class
counts the same, as it does in training.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from metadrift.errors import UsageError
from metadrift.learners import MetaLearner
from metadrift.learners.anil import ANIL
from metadrift.learners.maml import MAML
from metadrift.learners.normalisation import adapting, task_norms
from metadrift.learners.protonet import ProtoNet, squared_distances
from metadrift.learners.ridge import Ridge, ridge_predictions

_IMAGES_A_PASS = 1024

Weights = dict[str, Tensor]
Head = tuple[Tensor, Tensor]  # weight [ways, D] and bias [ways]


@torch.no_grad()
def answers(
    learner: MetaLearner, support: Tensor, labels: Tensor, query: Tensor, *, together: bool = False
) -> Tensor:
    """Logits [m, ways] of the query pictures.

    Parameters
    ----------
    learner
        Its weights are not changed.
    support, query
        uint8 [n, C, H, W] and [m, C, H, W], on the learner's device.
    labels
        int64 [n], from 0 to ways - 1, each at least once.
    together
        With `batch` normalisation the statistics are those of the pictures that are looked at in
        one pass. False: the support pictures and one query, so that an answer does not depend on
        the other queries. True: the support pictures and all queries, as in training tasks.
    """
    was_training = learner.training
    learner.eval()
    try:
        body = _adapted(learner, support, labels) if isinstance(learner, MAML) else None
        own_statistics = bool(task_norms(learner.backbone)) and learner.normalisation == "batch"
        if together and isinstance(learner, MAML) and own_statistics and len(query) > 1:
            # As in its training: the queries are normalised by themselves.
            return _linear(_features(learner, query[None], body), _head_of(body))[0]
        if not own_statistics:
            passes = torch.split(query, _IMAGES_A_PASS)
            return torch.cat([_logits(learner, support, labels, q[None], body)[0] for q in passes])
        if together:
            return _logits(learner, support, labels, query[None], body)[0]
        each = max(1, _IMAGES_A_PASS // (len(support) + 1))
        parts = [
            _logits(learner, support, labels, some.unsqueeze(1), body)[:, 0]
            for some in torch.split(query, each)
        ]
        return torch.cat(parts)
    finally:
        learner.train(was_training)


def _logits(
    learner: MetaLearner, support: Tensor, labels: Tensor, query: Tensor, body: Weights | None
) -> Tensor:
    """T questions about the same support pictures: query [T, m, C, H, W] to [T, m, ways]."""
    n, ways = len(support), int(labels.max()) + 1
    images = torch.cat([support.expand(len(query), *support.shape), query], 1)
    features = _features(learner, images, body)
    known, unknown = features[:, :n], features[:, n:]
    if body is not None:
        return _linear(unknown, _head_of(body))
    one_hot = F.one_hot(labels, ways).to(features.dtype)
    shots = one_hot.sum(0)
    if isinstance(learner, ProtoNet):
        prototypes = (one_hot / shots).T @ known
        return -squared_distances(unknown, prototypes)
    weight = (n / (ways * shots))[labels].unsqueeze(1)  # of a picture; 1 where shots are equal
    if isinstance(learner, Ridge):
        targets = weight.sqrt() * (2 * one_hot - 1)
        strength = learner.log_strength.exp()
        predicted = ridge_predictions(weight.sqrt() * known, targets, unknown, strength)
        return learner.log_scale.exp() * predicted
    if isinstance(learner, ANIL):
        return _anil(learner, known, one_hot, weight, unknown)
    raise UsageError(
        f"{type(learner).__name__} cannot name pictures: classify knows the learners protonet, "
        "ridge, anil and maml"
    )


def _anil(learner: ANIL, known: Tensor, one_hot: Tensor, weight: Tensor, unknown: Tensor) -> Tensor:
    """The inner steps on the head, whose gradient in closed form is (softmax - one-hot) x."""
    T, n, _ = known.shape
    start, rate = starting_head(learner, one_hot.shape[1])
    w, b = (part.expand(T, *part.shape) for part in start)
    for _ in range(learner.inner_steps):
        error = weight / n * (_linear(known, (w, b)).softmax(-1) - one_hot)
        w, b = w - rate * error.transpose(1, 2) @ known, b - rate * error.sum(1)
    return _linear(unknown, (w, b))


def starting_head(learner: ANIL | MAML, ways: int) -> tuple[Head, float]:
    """Where the inner loop starts with so many classes, and the head's learning rate.

    For the ways of training that is the trained head. For other ways every class starts from the
    mean of the trained rows: in training a class meets each row equally often, so the mean is what
    the rows have in common. A class's part of the mean loss is 1/ways, so the rate grows with
    the ways to keep the step of each class as long as in training.
    """
    weight, bias, trained = learner.head.weight, learner.head.bias, learner.head.out_features
    if ways == trained:
        return (weight, bias), learner.inner_lr
    mean = weight.mean(0, keepdim=True).expand(ways, -1), bias.mean().expand(ways)
    return mean, learner.inner_lr * ways / trained


def _adapted(learner: MAML, support: Tensor, labels: Tensor) -> Weights:
    """All weights after the inner steps on the support pictures."""
    ways = int(labels.max()) + 1
    (weight, bias), head_rate = starting_head(learner, ways)
    shots = labels.bincount()
    share = 1 / (ways * shots[labels]).to(weight.dtype)  # of each picture in the loss
    weights: Weights = {f"backbone.{name}": p for name, p in learner.backbone.named_parameters()}
    weights |= {"head.weight": weight, "head.bias": bias}
    trained = [name for name, p in learner.named_parameters() if p.requires_grad]
    with torch.enable_grad(), adapting(learner.backbone):
        for _ in range(learner.inner_steps):
            moving = {name: weights[name].detach().requires_grad_() for name in trained}
            weights |= moving
            logits = _linear(_features(learner, support[None], weights), _head_of(weights))[0]
            loss = (share * F.cross_entropy(logits, labels, reduction="none")).sum()
            gradients = torch.autograd.grad(loss, list(moving.values()), materialize_grads=True)
            for (name, w), gradient in zip(moving.items(), gradients, strict=True):
                rate = head_rate if name.startswith("head.") else learner.inner_lr
                weights[name] = w - rate * gradient
    return {name: w.detach() for name, w in weights.items()}


def _features(learner: MetaLearner, images: Tensor, body: Weights | None) -> Tensor:
    """uint8 [T, N, C, H, W] to [T, N, D], through the learner's own or through adapted weights."""
    if body is None:
        return learner.features(images)
    for norm in task_norms(learner.backbone):
        norm.tasks = len(images)
    own = {n.removeprefix("backbone."): w for n, w in body.items() if n.startswith("backbone.")}
    rows: Tensor = torch.func.functional_call(learner.backbone, own, (learner.pixels(images),))
    return rows.reshape(*images.shape[:2], -1)


def _head_of(weights: Weights | None) -> Head:
    assert weights is not None
    return weights["head.weight"], weights["head.bias"]


def _linear(features: Tensor, head: Head) -> Tensor:
    """[T, n, D] to [T, n, ways], with one head for all or one for each of the T."""
    weight, bias = head
    return features @ weight.transpose(-1, -2) + bias.unsqueeze(-2)
