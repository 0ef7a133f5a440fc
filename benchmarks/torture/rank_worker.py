"""One rank of torchrun: the command line, with a NaN loss on rank NAN_ON alone, in step NAN_IN."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "reliability"))

import driver

if __name__ == "__main__":
    if os.environ.get("NAN_ON") == os.environ["RANK"]:
        driver.nan_in_steps([int(os.environ["NAN_IN"]), -1])
    raise SystemExit(driver.cli.main(sys.argv[1:]))
