"""The trained learner of a run, taken out of its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from metadrift.data.images import ImageFormat
from metadrift.errors import MetadriftError, UsageError
from metadrift.learners import MetaLearner, pick_device
from metadrift.live.classification import Classification, classify
from metadrift.live.learner import ContinualMetaLearner
from metadrift.live.pictures import Queries, Support
from metadrift.methods.average import evaluated_weights
from metadrift.runs.build import build_learner, plan
from metadrift.runs.checkpoint import checkpoints, load_checkpoint, steps_of
from metadrift.runs.config import RunConfig, load_config
from metadrift.storage.reading import read_json
from metadrift.streams import open_packs


@dataclass(frozen=True)
class TrainedModel:
    """A learner with the weights of one checkpoint, and what its pictures looked like.

    Parameters
    ----------
    learner
        In evaluation mode.
    image_format
        Size and channels of the training pictures; new ones are resized to it in the same way.
    checkpoint
        Where the weights come from.
    config
        The settings of the run.
    """

    learner: MetaLearner
    image_format: ImageFormat
    checkpoint: Path
    config: RunConfig

    def classify(
        self, support: Support, query: Queries, *, together: bool = False
    ) -> Classification:
        """Name pictures by a few pictures of each class.

        Parameters
        ----------
        support
            A folder of class folders, or {name: pictures}. A picture is a path, a uint8 array
            [H, W] or [H, W, 1 or 3], or an image of Pillow. Any number of classes from 2, any
            number of pictures each.
        query
            A picture or several; a folder stands for all pictures in it.
        together
            Look at all queries at once, as in training tasks, instead of each on its own.
        """
        return classify(self.learner, self.image_format, support, query, together=together)


def load(
    run: str | Path,
    *,
    checkpoint: int | None = None,
    size: int | None = None,
    grey: bool | None = None,
    device: str = "auto",
) -> TrainedModel:
    """The learner of a run: of its last checkpoint, or of a given step.

    Parameters
    ----------
    run
        The run's folder; it need not be finished. Or what a ContinualMetaLearner with a learner of
        this package has saved.
    checkpoint
        The step of a checkpoint that is kept.
    size, grey
        What the training pictures looked like. Only needed when neither the run's summary, nor its
        packs, nor its memory can say it.
    device
        auto, cpu, cuda or mps.
    """
    folder = Path(run)
    if not (folder / "config.toml").is_file() and (saved := checkpoints(folder)):
        live = ContinualMetaLearner.load(folder, device=device)
        return TrainedModel(live.method.evaluated.eval(), live.image_format, saved[-1], live.config)
    config = load_config(_config_of(folder))
    path = _checkpoint_of(folder, checkpoint)
    try:
        state = load_checkpoint(path)["method"]
        image_format = _image_format(folder, config, state, size, grey)
        learner = build_learner(config, image_format.size)
        learner.load_state_dict(evaluated_weights(state))
    except (KeyError, RuntimeError) as error:
        what = shorten(str(error), 160)
        raise MetadriftError(f"{path} does not fit the settings of {folder}: {what}") from None
    return TrainedModel(learner.to(pick_device(device)).eval(), image_format, path, config)


def _config_of(folder: Path) -> Path:
    file = folder / "config.toml"
    if (folder / "domains").is_dir():
        homes = ", ".join(str(home) for home in sorted((folder / "domains").iterdir()))
        raise MetadriftError(
            f"{folder} trained a learner for each domain; name one of them: {homes}"
        )
    if not file.is_file():
        runs = sorted(home.parent.name for home in folder.glob("*/config.toml"))
        inside = f"; there are runs in it: {', '.join(runs[:5])}" if runs else ""
        raise MetadriftError(f"{folder} is not a run's folder: it has no config.toml{inside}")
    return file


def _checkpoint_of(folder: Path, step: int | None) -> Path:
    saved = checkpoints(folder / "checkpoints")
    kept = dict(zip(steps_of(saved), saved, strict=True))
    if not kept:
        raise MetadriftError(
            f"{folder} has no checkpoint yet; `metadrift resume {folder}` goes on with the run"
        )
    if step is not None and step not in kept:
        there = ", ".join(map(str, kept))
        raise UsageError(f"{folder} keeps no checkpoint of step {step}; there are those of {there}")
    return kept[max(kept) if step is None else step]


def _image_format(
    folder: Path, config: RunConfig, state: dict[str, Any], size: int | None, grey: bool | None
) -> ImageFormat:
    """From the options, else the summary, else the packs, else the pictures in memory."""
    channels = None if grey is None else 1 if grey else 3
    if size is None and (folder / "summary.json").is_file():
        size = read_json(folder / "summary.json").get("image_size")
    if size is None or channels is None:
        found = _seen_in_packs(config) or _seen_in_memory(state)
        if found is not None:
            size, channels = size or found.size, channels or found.channels
    if type(size) is not int:
        raise MetadriftError(
            f"nothing in {folder} says how large its pictures were, and its packs are not here; "
            "give --size (from Python size=), the side in pixels"
        )
    return ImageFormat(size, channels or 3)


def _seen_in_packs(config: RunConfig) -> ImageFormat | None:
    try:
        packs = open_packs(plan(config), config.data, config.size).values()
    except MetadriftError:
        return None
    return ImageFormat(next(iter(packs)).image_size, max(pack.channels for pack in packs))


def _seen_in_memory(state: dict[str, Any]) -> ImageFormat | None:
    stored = state.get("memory")
    if stored is None or not len(stored["buffer"]["images"]):
        return None
    channels, height = stored["buffer"]["images"].shape[3:5]
    return ImageFormat(int(height), int(channels))
