"""One run as 2 processes of 1 thread, as 1 process of 1 thread and as 1 process of 2 threads.

    python benchmarks/processes.py --rounds 5

All three train the same steps on the same tasks. They take turns, a round of steps each, so that
whatever else the machine does falls on all alike; a contender that waits does not compute. Said
are medians of a step's time as ratios to 1 process of 1 thread, the share of it that the two
processes spend in exchanges, and how far their losses are apart.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from metadrift.distributed.group import Group, joined
from metadrift.runs.build import build
from metadrift.runs.config import RunConfig

CONTENDERS = {"1 x 1": (1, 1), "2 x 1": (2, 1), "1 x 2": (1, 2)}  # processes, threads of each


@dataclass(frozen=True)
class Arguments:
    method: str = "sequential"  # or reservoir, m2d3-pets
    learner: str = "protonet"  # or anil, maml, ridge
    rounds: int = 5  # turns that count, after one that does not
    steps: int = 10  # steps of a turn
    tasks: int = 4  # tasks a step, an even number
    size: int = 28  # pixels
    lr: float = 0.001  # with a larger one rounding errors grow faster
    out: Path | None = None  # a JSON file for the result


def main(arguments: Arguments) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        benchmark = folder / "benchmark.toml"
        steps = (arguments.rounds + 1) * arguments.steps
        benchmark.write_text(
            f'packs = "builtin"\ntasks_per_step = {arguments.tasks}\nmemory = 50\n'
            f'[[segments]]\ndomain = "sketches"\nsteps = {steps}\n'
        )
        work = {**asdict(arguments), "out": None, "benchmark": str(benchmark)}
        (folder / "work.json").write_text(json.dumps(work))
        contenders = {name: start(*how, folder) for name, how in CONTENDERS.items()}
        try:
            turns = take_turns(contenders, arguments.rounds)
        except BaseException:
            for process in contenders.values():
                process.terminate()
            raise
        finally:
            for process in contenders.values():
                process.wait()
    result = compared(turns, arguments)
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


def start(processes: int, threads: int, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "serve", str(folder / "work.json")]
    if processes > 1:
        how = ["--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, "-m", "torch.distributed.run", *how, *command[1:]]
    # torchrun hands no input on to its processes, so turns are asked for by files.
    turns = folder / f"turns-{processes}-{threads}"
    turns.mkdir()
    return subprocess.Popen(
        [*command, str(turns)],
        stdin=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": str(threads)},
        text=True,
    )


def take_turns(
    contenders: dict[str, subprocess.Popen[str]], rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """The first turn, with the start of the processes in it, does not count."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, process in contenders.items():
            turns = Path(process.args[-1])  # type: ignore[index]
            (turns / f"ask-{turn}").touch()
            while not (turns / f"told-{turn}").is_file():
                if process.poll() is not None:
                    raise SystemExit(f"{name} ended with code {process.returncode}")
                time.sleep(0.01)
            found[name].append(json.loads((turns / f"told-{turn}").read_text()))
    return found


def serve(file: Path, turns: Path) -> None:
    """In a contender: a turn of steps whenever one is asked for."""
    work = json.loads(file.read_text())
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    config = RunConfig(
        method=work["method"],
        learner=work["learner"],
        benchmark=work["benchmark"],
        size=work["size"],
        lr=work["lr"],
    )
    with joined() as group:
        parts = build(config, turns, group)
        for turn in range(work["rounds"] + 1):
            while not (turns / f"ask-{turn}").is_file():
                time.sleep(0.005)
            group.wait()
            spent, began = group.seconds, time.perf_counter()
            losses = [parts.method.step(next(parts.stream)).loss for _ in range(work["steps"])]
            seconds = time.perf_counter() - began
            tell(turns, turn, group, seconds, group.seconds - spent, losses)


def tell(
    turns: Path, turn: int, group: Group, seconds: float, exchange: float, losses: list[float]
) -> None:
    if group.leads:
        told = {"seconds": seconds, "exchange": exchange, "losses": losses}
        (turns / ".told").write_text(json.dumps(told))
        (turns / ".told").rename(turns / f"told-{turn}")


def compared(turns: dict[str, list[dict[str, Any]]], a: Arguments) -> dict[str, Any]:
    step = {
        name: statistics.median(turn["seconds"] for turn in told[1:]) / a.steps
        for name, told in turns.items()
    }
    losses = {name: [x for turn in told for x in turn["losses"]] for name, told in turns.items()}
    pairs = zip(losses["1 x 1"], losses["2 x 1"], strict=True)
    exchange = [turn["exchange"] / turn["seconds"] for turn in turns["2 x 1"][1:]]
    return {
        "settings": {key: str(value) for key, value in asdict(a).items()},
        "ms_a_step": {name: round(1000 * value, 2) for name, value in step.items()},
        "throughput_to_1_x_1": {name: round(step["1 x 1"] / v, 3) for name, v in step.items()},
        "exchange_share": round(statistics.median(exchange), 3),
        "largest_relative_difference_of_losses": max(abs(a - b) / abs(a) for a, b in pairs),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(tyro.cli(Arguments, description=__doc__))
