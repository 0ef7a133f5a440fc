"""The network of a run in ONNX gives what torch gives."""

import numpy as np
import pytest
import torch
from torch import nn

from metadrift.cli import main
from metadrift.errors import MetadriftError, UsageError
from metadrift.examples import Arrays, Pictures
from metadrift.learners import make_learner
from metadrift.live.export import export_onnx

SETTINGS = [
    "--scale", "0.2", "--ways", "3", "--queries", "2", "--test-tasks", "2", "--stage-tasks", "0",
    "--threads", "1", "--learn.filters", "4", "--device", "cpu", "--json",
]  # fmt: skip


@pytest.mark.parametrize("normalisation", ["running", "batch"])
def test_1000_queries_have_the_same_embedding_and_nearest_class(
    normalisation, tiny_benchmark, tmp_path, capsys
):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from metadrift import load

    words = ["--method", "sequential", "--learn.normalisation", normalisation, *SETTINGS]
    out = ["--out", str(tmp_path), "--name", "run", "--benchmark", str(tiny_benchmark)]
    assert main(["run", *words, *out]) == 0
    capsys.readouterr()
    file = tmp_path / "net.onnx"
    assert main(["export", str(tmp_path / "run"), "--onnx", str(file)]) == 0
    alone = "each picture stands alone" in capsys.readouterr().out
    assert alone == (normalisation == "running")
    model = load(tmp_path / "run", device="cpu")
    generator = torch.Generator().manual_seed(0)
    shape = (1010, *model.example.shape)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    session = onnxruntime.InferenceSession(str(file))
    ours = session.run(None, {"images": images.numpy()})[0]
    with torch.no_grad():
        given = model.example.to_network(images[None], like=torch.zeros(1))
        theirs = model.learner.backbone(given).numpy()
    assert np.abs(ours - theirs).max() < 1e-4

    def nearest(embeddings):
        prototypes = embeddings[:10].reshape(5, 2, -1).mean(1)
        return ((embeddings[10:, None] - prototypes) ** 2).sum(-1).argmin(1)

    assert (nearest(ours) == nearest(theirs)).all()


class Normed(nn.Sequential):
    """A custom backbone for arrays, with a normalisation inside."""

    def __init__(self):
        layers = (nn.Linear(20, 8), nn.BatchNorm1d(8), nn.ReLU())
        super().__init__(nn.Flatten(), nn.Sequential(*layers))


@pytest.mark.parametrize("normalisation", ["running", "batch"])
@pytest.mark.parametrize(
    ("example", "backbone"),
    [
        (Pictures(12, 3), "resnet12"),
        (Pictures(12, 1), "mlp"),
        (Arrays((20,)), "mlp"),
        (Arrays((4, 5), "float16"), Normed()),
    ],
)
def test_every_backbone_gives_in_onnx_what_it_gives_in_torch(
    example, backbone, normalisation, tmp_path
):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    learner = make_learner(
        "protonet",
        example=example,
        ways=3,
        generator=0,
        backbone=backbone,
        normalisation=normalisation,
        filters=4 if isinstance(backbone, str) else None,
    )
    generator = torch.Generator().manual_seed(0)
    if isinstance(example, Pictures):
        shape = (1000, *example.shape)
        given = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    else:
        given = torch.randn((1000, *example.shape), generator=generator)
    with torch.no_grad():
        for _ in range(3):  # the running averages leave their first values
            moved = learner.train().backbone(example.to_network(given[None], like=torch.zeros(1)))
            assert moved.isfinite().all()
        theirs = learner.eval().backbone(example.to_network(given[None], like=torch.zeros(1)))
    told = export_onnx(learner, example, tmp_path / "net.onnx")
    alone = backbone == "mlp" or normalisation == "running"
    assert ("stands alone" in told) == alone
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    ours = session.run(None, {session.get_inputs()[0].name: given.numpy()})[0]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs.numpy()).max() < 1e-4 * max(1, theirs.abs().max())


class Unwritable(nn.Module):
    def forward(self, images):
        return torch.special.bessel_j0(images.flatten(1))


def test_what_cannot_be_exported_is_one_sentence(tmp_path):
    pytest.importorskip("onnx")
    net = nn.Sequential(Unwritable(), nn.Linear(432, 3))
    learner = make_learner("protonet", image_size=12, ways=3, generator=0, backbone=net)
    with pytest.raises(UsageError, match="torch cannot write this backbone as ONNX: "):
        export_onnx(learner, Pictures(12, 3), tmp_path / "x.onnx")
    with pytest.raises(MetadriftError, match="there is no folder"):
        export_onnx(learner, Pictures(12, 3), tmp_path / "gone" / "x.onnx")
    assert list(tmp_path.iterdir()) == []
