"""bfloat16 activations: the same answers and gradients to bfloat16's digits, all else float32."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from metadrift import registry
from metadrift.errors import UsageError
from metadrift.learners import make_learner
from metadrift.learners.precision import computes_bf16, resolve_precision
from metadrift.tasks import TaskBatch, TaskGeometry

every_learner = pytest.mark.parametrize("name", registry.built_in("learners"))
custom_or_not = pytest.mark.parametrize("custom", [False, True])


class Custom(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 8),
        )

    def forward(self, x):
        return self.layers(x)


def made(name, precision, custom=False, normalisation="batch"):
    torch.manual_seed(0)
    backbone = {"backbone": Custom()} if custom else {"filters": 16}
    return make_learner(
        name,
        image_size=16,
        ways=3,
        generator=0,
        normalisation=normalisation,
        precision=precision,
        **backbone,
    )


def apart(a, b):
    """How far two tensors are apart, as a share of their length."""
    return float((a.detach() - b.detach()).norm() / b.detach().norm())


def patterned(tasks=2, ways=3, shots=3, queries=4, size=16):
    """Tasks whose classes are patterns with noise."""
    generator = torch.Generator().manual_seed(0)
    pattern = torch.randn((tasks, ways, 1, 3, size // 4, size // 4), generator=generator)
    pattern = 120 + 50 * pattern.repeat_interleave(4, -1).repeat_interleave(4, -2)

    def some(n):
        noise = torch.randn((tasks, ways, n, 3, size, size), generator=generator)
        return (pattern + 20 * noise).clamp(0, 255).to(torch.uint8).flatten(1, 2)

    return TaskBatch(torch.cat([some(shots), some(queries)], 1), TaskGeometry(ways, shots, queries))


@every_learner
@custom_or_not
def test_answers_and_gradients_are_those_of_float32_to_its_digits(name, custom):
    full, mixed = (made(name, precision, custom) for precision in ("float32", "bf16"))
    tasks = patterned()
    expected, found = full(tasks), mixed(tasks)
    assert not torch.equal(found.logits, expected.logits)
    assert apart(found.logits, expected.logits) < 0.05
    assert apart(found.loss, expected.loss) < 0.05
    assert apart(found.embedding, expected.embedding) < 0.01
    (expected.loss.sum() + found.loss.sum()).backward()
    a, b = (torch.cat([p.grad.flatten() for p in of.parameters()]) for of in (mixed, full))
    assert torch.cosine_similarity(a, b, dim=0) > 0.98


@every_learner
@custom_or_not
def test_all_but_the_activations_is_float32(name, custom, make_tasks):
    normalisation = "batch" if (name, custom) == ("maml", True) else "running"
    learner = made(name, "bf16", custom, normalisation)
    seen = []
    for layer in learner.backbone.modules():
        if isinstance(layer, nn.Conv2d) and custom and name != "maml":
            layer.register_forward_hook(lambda _, __, y: seen.append(y.dtype))
    outcome = learner(make_tasks())
    outcome.loss.sum().backward()
    kinds = {outcome.loss, outcome.logits, outcome.embedding, outcome.importance}
    assert {tensor.dtype for tensor in kinds} == {torch.float32}
    assert all(p.dtype == p.grad.dtype == torch.float32 for p in learner.parameters())
    assert all(b.dtype == torch.float32 for b in learner.buffers())
    assert set(seen) <= {torch.bfloat16}


@every_learner
@pytest.mark.parametrize("normalisation", ["batch", "running"])
def test_predictions_are_those_of_float32_to_its_digits(name, normalisation):
    full, mixed = (made(name, p, normalisation=normalisation) for p in ("float32", "bf16"))
    tasks = patterned()
    given = tasks.support, tasks.support_labels, tasks.query
    assert apart(mixed.predict(*given), full.predict(*given)) < 0.05


@every_learner
def test_the_same_pass_gives_the_same_bits(name, make_tasks):
    gradients = []
    for _ in range(2):
        learner = made(name, "bf16")
        learner(make_tasks()).loss.sum().backward()
        gradients.append([p.grad for p in learner.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.slow
@every_learner
def test_training_in_bf16_lowers_the_loss(name, make_tasks):
    learner, tasks = made(name, "bf16"), make_tasks()
    optimiser = torch.optim.Adam(learner.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        loss = learner(tasks).loss.mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_auto_says_what_it_took_and_leaves_the_learner_alone():
    learner = made("protonet", "float32", normalisation="running")
    before = {key: value.clone() for key, value in learner.state_dict().items()}
    chosen, said = resolve_precision("auto", learner, ways=3)
    assert said.startswith(f"precision {chosen}")
    assert learner.precision == "float32"
    assert all(torch.equal(before[key], value) for key, value in learner.state_dict().items())
    assert all(p.grad is None for p in learner.parameters())
    if computes_bf16(torch.device("cpu")):
        assert "times as fast as float32" in said


def test_auto_stays_with_float32_where_there_is_no_bfloat16_arithmetic():
    learner = made("protonet", "float32").to("meta")  # a device that computes nothing
    expected = ("float32", "precision float32: this meta has no bfloat16 arithmetic")
    assert resolve_precision("auto", learner, ways=3) == expected


def test_a_wrong_precision_is_refused():
    with pytest.raises(UsageError, match="float32 or bf16, not 'half'"):
        made("protonet", "half")
    with pytest.raises(UsageError, match="auto, float32 or bf16"):
        resolve_precision("fp8", made("protonet", "float32"), ways=3)
