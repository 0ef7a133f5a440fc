"""Optimisers by name, clipping and schedules: exact across a checkpoint; errors are sentences."""

from itertools import islice

import pytest
import torch

from metadrift import ContinualMetaLearner, TaskGeometry
from metadrift.cli import main
from metadrift.errors import MetadriftError, UsageError
from metadrift.methods import OptimConfig
from metadrift.methods.optimisation import Schedule, make_optimizer
from metadrift.runs.checkpoint import load_checkpoint, save_checkpoint
from metadrift.runs.config import RunConfig

OPTIMIZERS = (
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam",
    "RMSprop", "Rprop", "SGD",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_any_optimiser_goes_on_from_a_checkpoint_to_the_same_bits(
    name, build_method, batches, tmp_path
):
    def made():
        method = build_method("reservoir")
        decay = 0.0 if name == "Rprop" else 1e-3  # Rprop has none
        config = OptimConfig(name, (), decay, clip=1.0, schedule="cosine", warmup=3)
        method.optimizer = make_optimizer(config, 0.01, method.parameters())
        method.schedule = Schedule(method.optimizer, config, 20)
        method.clip = config.clip
        return method

    def train(method, stream):
        for tasks in stream:
            method.step(tasks)
            method.after_step()

    whole, first, second, stream = made(), made(), made(), batches(1)
    train(whole, islice(batches(1), 16))
    train(first, islice(stream, 9))
    second.load_state_dict(
        load_checkpoint(save_checkpoint(tmp_path, 9, {"method": first.state_dict()}))["method"]
    )
    assert second.optimizer.param_groups[0].keys() == first.optimizer.param_groups[0].keys()
    train(second, islice(stream, 7))
    for a, b in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


def test_whole_parameter_groups_come_back(build_method):
    one, two = build_method("sequential"), build_method("sequential")
    one.optimizer.param_groups[0] |= {"lr": 0.5, "betas": (0.5, 0.6), "weight_decay": 0.1}
    two.load_state_dict(one.state_dict())
    group = two.optimizer.param_groups[0]
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.5, (0.5, 0.6), 0.1)


@pytest.mark.parametrize("name", ["reservoir", "agem", "gss"])
def test_a_clipped_gradient_moves_the_weights_by_no_more_than_its_norm(name, build_method, batches):
    method = build_method(name)
    method.optimizer = torch.optim.SGD(method.parameters(), lr=1.0)
    method.clip = 1e-3
    for tasks in islice(batches(0), 5):
        before = [p.detach().clone() for p in method.parameters()]
        method.step(tasks)
        moved = [p.detach() - b for p, b in zip(method.parameters(), before, strict=True)]
        assert torch.nn.utils.get_total_norm(moved) <= 1.001e-3


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (OptimConfig("SDG"), "torch.optim has no optimiser 'SDG' .*; did you mean 'SGD'"),
        (OptimConfig("LBFGS"), "no optimiser 'LBFGS' that can be used here"),
        (OptimConfig("SGD", ("momentun=1",)), "no option 'momentun'; did you mean 'momentum'"),
        (OptimConfig("SGD", ("lr=1",)), "the learning rate is --lr: leave lr out"),
        (OptimConfig("SGD", ("momentum",)), "takes NAME=VALUE, such as momentum=0.9, not momentum"),
        (OptimConfig("SGD", ("momentum=-1",)), "cannot be made with these options: .*momentum"),
        (
            OptimConfig("SGD", ("momentum=x",)),
            "momentum=x: x is no number, true, false, list or text",
        ),
    ],
)
def test_a_wrong_optimiser_is_one_sentence(config, sentence):
    with pytest.raises(MetadriftError, match=sentence):
        make_optimizer(config, 0.1, [torch.nn.Parameter(torch.zeros(2))])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--optim.clip", "-1"], "--optim.clip must be 0 or more"),
        (["--optim.steps", "5"], "add --optim.schedule cosine"),
        (["--method", "mer", "--optim.name", "SGD"], "mer takes plain gradient steps"),
        (["--optim.name", "Adm", "--scale", "0.5"], "did you mean 'Adam'"),
    ],
)
def test_the_command_refuses_what_cannot_be_before_it_makes_a_folder(
    words, sentence, capsys, tmp_path, tiny_benchmark
):
    tiny = ["--benchmark", str(tiny_benchmark), "--ways", "3", "--queries", "2", "--size", "12"]
    assert main(["run", "--out", str(tmp_path), *tiny, *words]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_live_stream_says_itself_how_long_a_falling_rate_falls():
    shape = {"geometry": TaskGeometry(2, 1, 1), "image_size": 8, "memory": 2}
    with pytest.raises(UsageError, match=r"give the falling rate optim\.steps"):
        ContinualMetaLearner(config=RunConfig(optim=OptimConfig(schedule="linear")), **shape)
    optim = OptimConfig("SGD", ("momentum=0.5",), schedule="linear", steps=9)
    model = ContinualMetaLearner(config=RunConfig(optim=optim), **shape)
    assert isinstance(model.optimizer, torch.optim.SGD)
