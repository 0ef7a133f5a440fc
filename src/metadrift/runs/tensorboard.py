"""Live curves for TensorBoard, where the extra `metadrift[tensorboard]` is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metadrift.errors import UsageError


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
        for name, value in line.items():
            if isinstance(value, float) or name == "latent_domain":
                self._writer.add_scalar(name, value, line["step"])
        for label, share in (line.get("memory") or {}).items():
            self._writer.add_scalar(f"memory/{label}", share, line["step"])

    def close(self) -> None:
        self._writer.close()
