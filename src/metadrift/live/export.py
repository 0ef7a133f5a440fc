"""The embedding network of a run as an ONNX file, for programs without torch."""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Pictures
from metadrift.learners import MetaLearner
from metadrift.learners.backbones import ConvNet
from metadrift.learners.normalisation import TaskNorm
from metadrift.storage.files import put_in_place


def export_onnx(learner: MetaLearner, channels: int, path: Path) -> str:
    """Write the network to `path`; returns a sentence on the statistics that it normalises by.

    The graph takes `images`, uint8 [n, channels, size, size], and gives `embeddings`, [n, D].
    """
    if importlib.util.find_spec("onnx") is None:
        raise UsageError("metadrift export needs onnx: pip install 'metadrift[onnx]'")
    if not isinstance(learner.backbone, ConvNet) or not isinstance(learner.example, Pictures):
        raise UsageError(
            "only runs on pictures with the backbone conv4 or conv5 can be exported to ONNX"
        )
    network = _Plain(learner.backbone).float().cpu().eval()
    size = learner.example.size
    images = torch.zeros((2, channels, size, size), dtype=torch.uint8)
    if not path.parent.is_dir():
        raise MetadriftError(f"there is no folder {path.parent}")
    with tempfile.TemporaryDirectory(dir=path.parent) as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter for graphs of plain operations is an old one
        whole = Path(place) / "network.onnx"
        torch.onnx.export(
            network,
            (images,),
            str(whole),
            dynamo=False,
            input_names=["images"],
            output_names=["embeddings"],
            dynamic_axes={"images": {0: "n"}, "embeddings": {0: "n"}},
        )
        put_in_place(whole, path)
    if network.running:
        return "it normalises by the running averages of training, so each picture stands alone"
    return (
        "it normalises by the statistics of the pictures of one call, as it was trained: give it "
        "support and query together (train with --learn.normalisation running for a network that "
        "takes each picture alone)"
    )


class _Plain(nn.Module):
    """The network in operations that every ONNX runtime has."""

    def __init__(self, backbone: ConvNet) -> None:
        super().__init__()
        self.blocks = backbone.blocks
        norms = [layer for layer in backbone.modules() if isinstance(layer, TaskNorm)]
        self.running = all(norm.running_mean is not None for norm in norms)

    def forward(self, images: Tensor) -> Tensor:
        x = images.float() * (1 / 127.5) - 1
        if images.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        block: Any
        for block in self.blocks:
            x = F.relu(F.max_pool2d(self._norm(block.norm, block.conv(x)), 2))
        return x.flatten(1)

    def _norm(self, norm: TaskNorm, x: Tensor) -> Tensor:
        if self.running:
            mean, var = norm.running_mean, norm.running_var
            return F.batch_norm(x, mean, var, norm.weight, norm.bias, False, 0.0, norm.eps)
        mean = x.mean((0, 2, 3), keepdim=True)
        centred = x - mean
        spread = (centred.square().mean((0, 2, 3), keepdim=True) + norm.eps).sqrt()
        return centred / spread * norm.weight[:, None, None] + norm.bias[:, None, None]
