"""Started by torchrun: does the runs of a plan, one after the other, in the same processes."""

import json
import sys
from pathlib import Path

import torch

from metadrift.distributed.group import joined
from metadrift.runs.config import load_config
from metadrift.runs.loop import go_on, start


def main(plan):
    with joined() as group:
        for folder, config in json.loads(plan.read_text()):
            double = Path(folder).name in ("exact", "rehearsing")
            torch.set_default_dtype(torch.float64 if double else torch.float32)
            if config is None:
                go_on(Path(folder), True, group)
            else:
                start(load_config(Path(config)), Path(folder), True, group)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
