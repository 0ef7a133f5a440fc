"""The network of a run in ONNX gives what torch gives."""

import numpy as np
import pytest
import torch

from metadrift.cli import main
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


def test_what_cannot_be_exported_is_one_sentence(tmp_path):
    pytest.importorskip("onnx")
    learner = make_learner("protonet", image_size=12, ways=3, generator=0, backbone="resnet12")
    with pytest.raises(Exception, match="only runs on pictures with the backbone conv4 or conv5"):
        export_onnx(learner, 3, tmp_path / "x.onnx")
