from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from metadrift.errors import UsageError
from metadrift.learners import normpool
from metadrift.learners.normalisation import TaskNorm, frozen_statistics, keep_tasks_apart
from metadrift.learners.normpool import norm_pool_relu


def _plain_block(x, filters, norm):  # one task, written with torch's own layers
    z = F.conv2d(x, filters, padding=1)
    averages = (norm.running_mean, norm.running_var) if norm.uses_averages else (None, None)
    training = not norm.uses_averages
    z = F.batch_norm(z, *averages, norm.weight, norm.bias, training, 0.0, norm.eps)
    return F.max_pool2d(F.relu(z), 2)


def _block(generator, channels=2, filters=4, normalisation="batch"):
    norm = TaskNorm(filters, normalisation).double()
    with torch.no_grad():  # some weights below zero, where pooling and scaling do not commute
        norm.weight.normal_(generator=generator)
        norm.bias.normal_(generator=generator)
        if norm.running_mean is not None:
            norm.running_mean.normal_(generator=generator)
            norm.running_var.uniform_(0.5, 2, generator=generator)
    shape = (filters, channels, 3, 3)
    kernel = torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()
    return kernel, norm


@settings(deadline=None, max_examples=30)
@given(
    tasks=st.integers(1, 4),
    images=st.integers(2, 5),
    size=st.integers(2, 9),
    seed=st.integers(0, 1000),
    averages=st.booleans(),
)
def test_the_fused_block_equals_torch_layers_task_by_task(tasks, images, size, seed, averages):
    generator = torch.Generator().manual_seed(seed)
    kernel, norm = _block(generator, normalisation="running" if averages else "batch")
    norm.train(not averages)
    norm.tasks = tasks
    x = torch.randn((tasks, images, 2, size, size), dtype=torch.float64, generator=generator)
    x.requires_grad_()
    rows = x.flatten(0, 1).contiguous(memory_format=torch.channels_last)
    fused = norm_pool_relu(rows, kernel, norm)
    plain = torch.cat([_plain_block(x[t], kernel, norm) for t in range(tasks)])
    torch.testing.assert_close(fused, plain, rtol=1e-9, atol=1e-9)

    towards = torch.randn(plain.shape, dtype=torch.float64, generator=generator)
    inputs = [x, kernel, norm.weight, norm.bias]
    fused_gradients = torch.autograd.grad(fused, inputs, towards)
    plain_gradients = torch.autograd.grad(plain, inputs, towards)
    for a, b in zip(fused_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_a_block_does_not_depend_on_the_pieces_it_is_computed_in(pieces, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    kernel, norm = _block(generator)
    norm.tasks = 3
    x = torch.randn((15, 2, 9, 8), dtype=torch.float64, generator=generator).requires_grad_()
    inputs = [x, kernel, norm.weight, norm.bias]

    def both():
        y = norm_pool_relu(x.contiguous(memory_format=torch.channels_last), kernel, norm)
        return [y, *torch.autograd.grad(y.square().sum(), inputs)]

    whole = both()
    monkeypatch.setattr(normpool, "_PIECE", -(-5 // pieces) * 4 * 9 * 8 * 8)  # of 5 images a task
    for a, b in zip(whole, both(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("value", [0.0, 1.5])
def test_of_equal_places_of_a_window_one_has_the_gradient(value):
    # A flat image: inside, all four places of a window are equal.
    kernel, norm = _block(torch.Generator().manual_seed(0))
    x = torch.full((2, 2, 8, 8), value, dtype=torch.float64)
    x[1, 0, 3, 3] = 1.0  # the moments must not be those of one value
    x.requires_grad_()
    inputs = [x, kernel, norm.weight, norm.bias]
    towards = torch.arange(2 * 4 * 4 * 4, dtype=torch.float64).view(2, 4, 4, 4)
    fused = norm_pool_relu(x.contiguous(memory_format=torch.channels_last), kernel, norm)
    plain = _plain_block(x, kernel, norm)
    found = torch.autograd.grad(fused, inputs[:2], towards)
    for a, b in zip(found, torch.autograd.grad(plain, inputs[:2], towards), strict=True):
        torch.testing.assert_close(a.sum(), b.sum(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("low", [False, True])
def test_filters_alone_have_the_same_gradient_as_with_the_images(low, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    kernel, norm = _block(generator)
    norm.tasks = 2
    x = torch.randn((6, 2, 8, 8), dtype=torch.float64, generator=generator)
    x = x.contiguous(memory_format=torch.channels_last)
    if low:  # pixels are convolved again in the backward pass
        x, norm, kernel = x.float(), norm.float(), kernel.detach().float().requires_grad_()
        monkeypatch.setattr(normpool, "_PIECE", 2 * 4 * 8 * 8 * 2)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        (alone,) = torch.autograd.grad(norm_pool_relu(x, kernel, norm).square().sum(), [kernel])
        y = norm_pool_relu(x.requires_grad_(), kernel, norm)
    (_, beside) = torch.autograd.grad(y.square().sum(), [x, kernel])
    limits = {"rtol": 0, "atol": 2**-7 * float(beside.abs().max())} if low else {}
    torch.testing.assert_close(alone, beside, **limits)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pieces", [1, 3, 40])
def test_moments_are_float32_sums_that_lose_no_digits(kind, pieces, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn((2 * 40, 1, 14, 14), generator=generator) * 0.1 + 3).to(kind)
    x = x.contiguous(memory_format=torch.channels_last)
    kernel = torch.zeros(3, 1, 3, 3)
    kernel[:, :, 1, 1] = 1  # z is x, three times
    norm = TaskNorm(3, "running")
    norm.tasks, norm.momentum = 2, 1.0
    monkeypatch.setattr(normpool, "_PIECE", -(-40 // pieces) * 3 * 14 * 14 * x.element_size())
    norm_pool_relu(x, kernel, norm)
    exact = x.double().view(2, 40 * 14 * 14)
    assert norm.running_mean.dtype == norm.running_var.dtype == torch.float32
    mean, var = exact.mean(), exact.var(1).mean()
    torch.testing.assert_close(norm.running_mean.double(), mean.expand(3), rtol=1e-5, atol=0)
    torch.testing.assert_close(norm.running_var.double(), var.expand(3), rtol=1e-4, atol=0)


def test_in_bfloat16_the_fused_blocks_are_as_exact_as_torch_layers():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((20, 3, 16, 16), generator=generator)
    kernels = [torch.randn((16, c, 3, 3), generator=generator) / (3 * c**0.5) for c in (3, 16, 16)]

    def gradients(block, kind, bf16):
        own = [kernel.to(kind).requires_grad_() for kernel in kernels]
        y = x.to(kind).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            for kernel in own:
                y = block(y, kernel, TaskNorm(16).to(kind))
        found = torch.autograd.grad(y.to(kind).square().sum(), own)
        return torch.cat([part.flatten() for part in found]).double()

    exact = gradients(_plain_block, torch.float64, False)
    fused, plain = (
        (gradients(block, torch.float32, True) - exact).norm() / exact.norm()
        for block in (norm_pool_relu, _plain_block)
    )
    assert fused < 1.2 * plain
    assert plain < 0.2


def test_a_layer_of_a_custom_backbone_takes_its_moments_in_float32():
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn((2000, 2), generator=generator) * 0.1 + 3).bfloat16()
    norm = TaskNorm(2, "running")
    norm.momentum = 1.0
    assert norm(x).dtype == torch.bfloat16
    exact = x.double()
    torch.testing.assert_close(norm.running_mean.double(), exact.mean(0), rtol=1e-5, atol=0)
    torch.testing.assert_close(norm.running_var.double(), exact.var(0), rtol=1e-3, atol=0)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.BatchNorm2d])
def test_task_norm_equals_batch_norm_when_there_is_one_task(layer):
    generator = torch.Generator().manual_seed(0)
    shape = (6, 3) if layer is nn.BatchNorm1d else (6, 3, 4, 4)
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    theirs = layer(3).double()
    ours = keep_tasks_apart(theirs, "running")
    for _ in range(3):
        torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_running_averages_move_by_the_mean_over_tasks():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn((3, 5, 2), dtype=torch.float64, generator=generator)
    norm = TaskNorm(2, "running").double()
    norm.tasks = 3
    norm(x.flatten(0, 1))
    torch.testing.assert_close(norm.running_mean, 0.1 * x.mean(1).mean(0))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * x.var(1).mean(0))


@pytest.mark.parametrize("fused", [True, False])
def test_scoring_passes_leave_the_running_averages_alone(fused):
    kernel, norm = _block(torch.Generator().manual_seed(0), normalisation="running")
    x = torch.randn((4, 2, 6, 6), dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def run():
        return norm_pool_relu(x, kernel, norm) if fused else norm(F.conv2d(x, kernel))

    before = norm.running_mean.clone()
    with torch.no_grad():
        run()
    with frozen_statistics(norm):
        run().sum().backward()
    norm.eval()
    run()
    torch.testing.assert_close(norm.running_mean, before, rtol=0, atol=0)
    norm.train()
    run()
    assert not torch.equal(norm.running_mean, before)


def test_averages_keep_their_meaning_when_a_weight_changes_sign():
    kernel, norm = _block(torch.Generator().manual_seed(0), normalisation="running")
    x = torch.randn((4, 2, 6, 6), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    norm.momentum = 1.0
    norm_pool_relu(x, kernel, norm)
    expected = F.conv2d(x, kernel, padding=1).mean((0, 2, 3))
    torch.testing.assert_close(norm.running_mean, expected)


def test_an_unknown_normalisation_is_refused():
    with pytest.raises(UsageError, match="batch, running"):
        keep_tasks_apart(nn.Identity(), "group")


def test_the_module_handed_in_is_not_changed():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    copy = keep_tasks_apart(module, "batch")
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.add_(1.0)
    assert isinstance(module[1], nn.BatchNorm2d)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
