"""The embedding network of a run as an ONNX file, for programs without torch."""

from __future__ import annotations

import copy
import importlib.util
import tempfile
import warnings
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import ExampleKind, Pictures
from metadrift.learners import MetaLearner
from metadrift.learners.backbones import ConvNet
from metadrift.learners.normalisation import TaskNorm
from metadrift.storage.files import put_in_place


def export_onnx(learner: MetaLearner, example: ExampleKind, path: Path) -> str:
    """Write the network to `path`; returns a sentence on the statistics that it normalises by.

    Of pictures the graph takes `images`, uint8 [n, channels, size, size], of others `examples`,
    float32 [n, *shape]. It gives `embeddings`, [n, D].
    """
    if importlib.util.find_spec("onnx") is None:
        raise UsageError("metadrift export needs onnx: pip install 'metadrift[onnx]'")
    if not path.parent.is_dir():
        raise MetadriftError(f"there is no folder {path.parent}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; --onnx is the file to write")
    pictures = isinstance(example, Pictures)
    network = _Plain(learner.backbone, pictures).float().cpu().eval()
    name = "images" if pictures else "examples"
    given = torch.zeros((2, *example.shape), dtype=torch.uint8 if pictures else torch.float32)
    with tempfile.TemporaryDirectory(dir=path.parent) as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter for graphs of plain operations is an old one
        whole = Path(place) / "network.onnx"
        try:
            torch.onnx.export(
                network,
                (given,),
                str(whole),
                dynamo=False,
                input_names=[name],
                output_names=["embeddings"],
                dynamic_axes={name: {0: "n"}, "embeddings": {0: "n"}},
            )
        except (RuntimeError, TypeError, ValueError, torch.onnx.OnnxExporterError) as error:
            raise UsageError(
                "torch cannot write this backbone as ONNX: " + shorten(str(error), 160)
            ) from error
        put_in_place(whole, path)
    one = "picture" if pictures else "example"
    if not network.normalises:
        return f"it does not normalise, so each {one} stands alone"
    if network.running:
        return f"it normalises by the running averages of training, so each {one} stands alone"
    return (
        f"it normalises by the statistics of the {one}s of one call, as it was trained: give it "
        "support and query together (train with --learn.normalisation running for a network that "
        f"takes each {one} alone)"
    )


class _Plain(nn.Module):
    """The network in operations that every ONNX runtime has."""

    def __init__(self, backbone: nn.Module, pictures: bool) -> None:
        super().__init__()
        norms = [layer for layer in backbone.modules() if isinstance(layer, TaskNorm)]
        self.normalises = bool(norms)
        self.running = all(norm.running_mean is not None for norm in norms)
        self.pictures = pictures
        self.backbone = _plain(copy.deepcopy(backbone))

    def forward(self, examples: Tensor) -> Tensor:
        if not self.pictures:
            found: Tensor = self.backbone(examples)
            return found
        x = examples.float() * (1 / 127.5) - 1
        if x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        found = self.backbone(x)
        return found


def _plain(module: nn.Module) -> nn.Module:
    """A module whose normalisation layers are made of plain operations."""
    if isinstance(module, TaskNorm):
        return _Norm(module)
    if isinstance(module, ConvNet):
        return _Blocks(module)
    for name, part in list(module.named_children()):
        setattr(module, name, _plain(part))
    return module


class _Blocks(nn.Module):
    def __init__(self, net: ConvNet) -> None:
        super().__init__()
        block: Any
        parts: list[nn.Module] = []
        for block in net.blocks:
            parts += [block.conv, _Norm(block.norm), nn.MaxPool2d(2), nn.ReLU()]
        self.parts = nn.Sequential(*parts, nn.Flatten())

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.parts(images)
        return found


class _Norm(nn.Module):
    """By the running averages, or by the statistics of all examples of a call."""

    def __init__(self, norm: TaskNorm) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        norm = self.norm
        if norm.running_mean is not None:
            mean, var = norm.running_mean, norm.running_var
            return F.batch_norm(x, mean, var, norm.weight, norm.bias, False, 0.0, norm.eps)
        places = [0, *range(2, x.ndim)]
        one = [-1] + [1] * (x.ndim - 2)  # [C] to [C, 1, 1]
        centred = x - x.mean(places, keepdim=True)
        spread = (centred.square().mean(places, keepdim=True) + norm.eps).sqrt()
        return centred / spread * norm.weight.view(one) + norm.bias.view(one)
