"""`metadrift classify`."""

from __future__ import annotations

import json as json_text
import sys
from pathlib import Path
from typing import Literal

from metadrift.commands.arguments import Flag, call, warnings_as_notes
from metadrift.errors import UsageError
from metadrift.storage.terminal import printable


def main(words: list[str]) -> int:
    return call(classify, "classify", words)


def classify(
    *,
    run: Path,
    support: Path,
    query: tuple[Path, ...],
    checkpoint: int | None = None,
    together: Flag = False,
    json: Flag = False,
    csv: Flag = False,
    size: int | None = None,
    grey: bool | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    precision: Literal["auto", "float32", "bf16"] | None = None,
    plugin: tuple[str, ...] = (),
) -> int:
    """Classify new pictures from a few examples per class, with the learner of a run.

    The classes may be new: give one folder per class, with one picture or more. Pictures are
    resized as those of the training were.

    Parameters
    ----------
    run
        The folder of a run, finished or not, or of a saved ContinualMetaLearner.
    support
        A folder (or zip) of class folders, each with a few pictures: DIR/cat/1.jpg, DIR/dog/1.jpg.
        Of a run on vectors: a .csv, .parquet or .npz file of rows with a label each.
    query
        Pictures, or folders of pictures. If a folder holds class folders named as those of the
        support, the accuracy is printed too. Of a run on vectors: files of rows, with labels or
        without.
    checkpoint
        The step of a checkpoint; without it the last one.
    together
        Classify all pictures at once, as in training tasks. By default each picture is classified
        on its own, and the result does not depend on the others (docs/classify.md).
    json
        Print one JSON object with the probability of every class.
    csv
        Print one line per picture with the probability of every class.
    size
        Side of the training pictures in pixels; only needed if the run does not record it.
    grey
        Whether the training pictures were all grey; only needed if the run does not record it.
    device
        Where to compute.
    precision
        Number type of the network; by default that of the run. auto takes bf16 if the machine has
        it in hardware and a short test finds it faster.
    plugin
        Your own code that the run uses. Name it again: package.module:Name or file.py:Name.
    """
    if json and csv:
        raise UsageError("--json and --csv cannot both be printed")
    if not query:
        raise UsageError("--query needs at least one picture or folder")
    from metadrift.learners.precision import resolve_precision
    from metadrift.live.model import load

    with warnings_as_notes():
        model = load(run, checkpoint=checkpoint, size=size, grey=grey, device=device)
    if precision is not None:
        learner = model.learner
        learner.precision, why = resolve_precision(precision, learner, model.config.ways)
        if precision == "auto":
            print(why, file=sys.stderr)
    found = model.classify(support, list(query), together=together)
    for lost in found.unreadable:
        print(printable(f"left out: {lost.name}: {lost.reason}"), file=sys.stderr)
    if json:
        about = {
            "run": str(run),
            "checkpoint": int(model.checkpoint.name.removeprefix("step-")),
            "learner": model.config.learner,
            "together": together,
            "precision": model.learner.precision,
        }
        print(json_text.dumps(about | found.as_table(), indent=1))
    else:
        print(found.as_csv().removesuffix("\n") if csv else found.as_text())
    return 0
