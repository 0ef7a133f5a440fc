"""Live curves for TensorBoard, where the extra `metadrift[tensorboard]` is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metadrift.errors import UsageError

CURVES = ("loss", "accuracy", "replay_loss", "statistic", "threshold", "latent_domain")


class TensorBoardWriter:
    """Writes each line of metrics as scalars into `folder/tensorboard`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UsageError(
                "--tensorboard needs the extra: pip install 'metadrift[tensorboard]'"
            ) from None
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"))

    def show(self, line: dict[str, Any]) -> None:
        for name in CURVES:
            self._writer.add_scalar(name, line[name], line["step"])
        for label, share in (line.get("memory") or {}).items():
            self._writer.add_scalar(f"memory/{label}", share, line["step"])

    def close(self) -> None:
        self._writer.close()
