"""Send a run's curves to Weights & Biases.

    pip install wandb
    python examples/wandb_logger.py --mode offline

`offline` keeps everything on this machine; `online` needs an account.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metadrift.learners import MetaLearner
from metadrift.runs.callbacks import Callback, scalars
from metadrift.runs.config import LearnerConfig, RunConfig
from metadrift.runs.loop import start


class WandbLogger(Callback):
    """One run of metadrift is one run of Weights & Biases, also when it is stopped and resumed.

    Parameters
    ----------
    project
        Where the run stands at Weights & Biases.
    mode
        `online`, `offline` or `disabled`.
    """

    def __init__(self, project: str, mode: str = "online") -> None:
        import wandb

        self.wandb, self.project, self.mode = wandb, project, mode

    def on_begin(self, folder: Path, settings: Mapping[str, Any], step: int) -> None:
        self.run = self.wandb.init(
            project=self.project,
            id=folder.name,
            dir=str(folder.parent),
            config=dict(settings),
            resume="allow",
            mode=self.mode,
        )

    def on_step(self, line: Mapping[str, Any]) -> None:
        self.run.log(scalars(line), step=int(line["step"]))

    def on_stage(self, step: int, accuracy: Mapping[str, float], learner: MetaLearner) -> None:
        self.run.log({f"test accuracy/{name}": a for name, a in accuracy.items()}, step=step)

    def on_end(self, summary: Mapping[str, Any] | None) -> None:
        if summary is not None:
            self.run.summary["accuracy"] = summary["accuracy"]["mean"]
            self.run.summary["forgetting"] = summary["forgetting"]
        self.run.finish(exit_code=0 if summary is not None else 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", default="metadrift")
    parser.add_argument("--mode", default="offline", choices=["online", "offline", "disabled"])
    parser.add_argument("--scale", type=float, default=0.02)
    parser.add_argument("--out", type=Path, default=Path("runs/wandb-example"))
    options = parser.parse_args()
    config = RunConfig(scale=options.scale, shots=5, learn=LearnerConfig(filters=16), test_tasks=50)
    summary = start(config, options.out, callbacks=[WandbLogger(options.project, options.mode)])
    print(f"accuracy: {100 * summary['accuracy']['mean']:.1f}%")


if __name__ == "__main__":
    main()
