"""Live curves for TensorBoard, where the extra `metadrift[tensorboard]` is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metadrift.errors import UsageError


def writer_class() -> Any:
    """TensorBoard's own writer, where it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError(
            "--tensorboard needs the extra: pip install 'metadrift[tensorboard]'"
        ) from None
    return SummaryWriter


class TensorBoardWriter:
    """Writes each line of metrics as scalars into `folder/tensorboard`."""

    def __init__(self, folder: Path) -> None:
        self._writer: Any = writer_class()(str(folder / "tensorboard"))

    def show(self, line: dict[str, Any]) -> None:
        for name, value in line.items():
            if isinstance(value, float) or name == "latent_domain":
                self._writer.add_scalar(name, value, line["step"])
        for label, share in (line.get("memory") or {}).items():
            self._writer.add_scalar(f"memory/{label}", share, line["step"])

    def close(self) -> None:
        self._writer.close()
