"""`metadrift export`: the embedding network of a run for other programs."""

from __future__ import annotations

from pathlib import Path

import tyro

from metadrift.commands.arguments import call, warnings_as_notes
from metadrift.storage.terminal import printable


def main(words: list[str]) -> int:
    return call(export, "export", words)


def export(run: tyro.conf.Positional[Path], /, *, onnx: Path, plugin: tuple[str, ...] = ()) -> int:
    """Write the embedding network of a run as an ONNX file.

    The network takes `images`, uint8 [n, channels, size, size], or of vectors and arrays
    `examples`, float32 [n, ...], and gives `embeddings` [n, D]. The normalisation is inside, as
    trained. Needs the extra metadrift[onnx].

    Parameters
    ----------
    run
        The run's folder.
    onnx
        The file to write.
    plugin
        Your own code that the run uses. Name it again: package.module:Name or file.py:Name.
    """
    from metadrift.live.export import export_onnx
    from metadrift.live.model import load

    with warnings_as_notes():
        model = load(run, device="cpu")
    told = export_onnx(model.learner, model.example, onnx)
    print(printable(f"written: {onnx}; {told}"))
    return 0
