"""Backbones by name, on pictures and on vectors, inside every learner."""

import pytest
import torch

from metadrift.errors import UsageError
from metadrift.examples import Arrays, Pictures
from metadrift.learners import make_learner
from metadrift.learners.backbones import ConvNet, linear_head
from metadrift.learners.base import with_gradient
from metadrift.learners.networks import usual_width
from metadrift.learners.protonet import ProtoNet
from metadrift.tasks import TaskBatch, TaskGeometry

GEOMETRY = TaskGeometry(3, 1, 2)
VECTORS = Arrays((6,))


def tasks_of(kind, tasks=2):
    generator = torch.Generator().manual_seed(0)
    blank = kind.blank(tasks, GEOMETRY.images_per_task)
    return TaskBatch((torch.rand(blank.shape, generator=generator) * 255).to(blank.dtype), GEOMETRY)


def made(learner="protonet", example=VECTORS, **options):
    return make_learner(learner, example=example, ways=3, generator=0, **options)


@pytest.mark.parametrize("learner", ["protonet", "anil", "maml", "ridge"])
@pytest.mark.parametrize(
    ("backbone", "example"),
    [
        ("mlp", VECTORS),
        ("mlp", Arrays((2, 3), "float16")),
        ("identity", VECTORS),
        ("identity", Arrays((2, 3), "float16")),
        ("mlp", Pictures(8)),
        ("resnet12", Pictures(8)),
        ("conv5", Pictures(8, 1)),
    ],
)
def test_every_learner_learns_with_every_backbone(learner, backbone, example):
    width = {} if backbone == "identity" else {"filters": 4}
    model = made(learner, example, backbone=backbone, **width)
    outcome = model(tasks_of(example))
    outcome.loss.sum().backward()
    assert outcome.logits.shape == (2, 6, 3)
    assert bool(torch.isfinite(outcome.importance).all())
    for weight in model.parameters():
        assert weight.grad is not None
        assert bool(torch.isfinite(weight.grad).all())


@pytest.mark.parametrize("backbone", ["mlp", "identity", "resnet12", "conv4"])
def test_bf16_is_near_float32_with_every_backbone(backbone):
    example = Pictures(8) if backbone in ("resnet12", "conv4") else VECTORS
    width = {} if backbone == "identity" else {"filters": 4}
    model = made("protonet", example, backbone=backbone, **width)
    full = model(tasks_of(example)).logits.flatten()
    model.precision = "bf16"
    mixed = model(tasks_of(example)).logits.flatten()
    assert torch.corrcoef(torch.stack([full, mixed]).detach())[0, 1] > 0.95


def test_the_usual_backbone_follows_from_the_examples():
    assert len(made(example=Pictures(28)).backbone.blocks) == 4
    assert len(made(example=Pictures(64)).backbone.blocks) == 5
    assert len(made("anil", example=Pictures(64)).backbone.blocks) == 4
    assert type(made().backbone).__name__ == "MLP"


def test_the_usual_widths_are_those_that_the_docs_say():
    widths = {name: usual_width(name, ProtoNet) for name in ("mlp", "resnet12", "identity")}
    assert widths == {"mlp": 256, "resnet12": 64, "identity": None}
    blocks = made(example=Pictures(8), backbone="resnet12", filters=4).backbone.blocks
    into, out = (3, 4, 10, 20), (4, 10, 20, 40)
    for block, n, wide in zip(blocks, into, out, strict=True):
        assert block(torch.zeros(1, n, 8, 8)).shape[1] == wide


def test_a_head_begins_near_zero():
    head = linear_head(4000, 5, torch.Generator().manual_seed(0))
    assert float(head.weight.detach().std()) == pytest.approx(0.01, rel=0.05)
    assert not head.bias.any()


def test_features_get_a_gradient_only_where_gradients_are_kept():
    with torch.no_grad():
        assert not with_gradient(torch.zeros(2)).requires_grad
    assert with_gradient(torch.zeros(2)).requires_grad


def test_conv4_by_name_has_the_weights_of_the_usual_one():
    usual, named = made(example=Pictures(28)), made(example=Pictures(28), backbone="conv4")
    assert isinstance(named.backbone, ConvNet)
    for a, b in zip(usual.parameters(), named.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_same_seed_gives_a_custom_backbone_the_same_weights(tmp_path):
    from metadrift import registry

    file = tmp_path / "net.py"
    file.write_text("from torch import nn\ndef small():\n    return nn.Linear(6, 4)\n")
    registry.allow(f"{file}:small")
    one, two = (made(backbone=f"{file}:small") for _ in range(2))
    assert torch.equal(one.backbone.weight, two.backbone.weight)
    assert one(tasks_of(VECTORS)).embedding.shape == (2, 4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"backbone": "conv4"}, "the backbone conv4 is for pictures, .* float32 vectors of 6"),
        ({"backbone": "resnet12"}, "the backbone resnet12 is for pictures"),
        ({"backbone": "identity", "filters": 4}, "identity has no width to set"),
        ({"backbone": "convv4"}, "there is no backbone 'convv4'; did you mean 'conv4'"),
        ({"learner": "maml", "normalisation": "running"}, "needs normalisation='batch'"),
        ({"example": None}, "say what the examples are"),
    ],
)
def test_wrong_backbones_are_refused_in_a_sentence(options, says):
    with pytest.raises(UsageError, match=says):
        made(**options)


def test_tasks_that_do_not_fit_the_learner_are_refused():
    with pytest.raises(Exception, match=r"made for float32 vectors of 6, not float32 \[5\]"):
        made()(tasks_of(Arrays((5,))))
    with pytest.raises(Exception, match="made for float32 vectors of 6, not uint8"):
        made()(tasks_of(Pictures(8)))
    with pytest.raises(Exception, match="images must be uint8"):
        made(example=Pictures(8))(tasks_of(VECTORS))
