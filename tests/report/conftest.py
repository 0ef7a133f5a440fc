"""Folders as runs and comparisons leave them, and headless Chromium to look at pages with."""

import base64
import contextlib
import itertools
import json
import math
import os
import select
import shutil
import subprocess
import time

import pytest

from metadrift.experiments.comparison import gather
from metadrift.experiments.grid import Grid
from metadrift.runs.config import to_toml
from metadrift.storage.files import write_json

SEGMENTS = (("inks", 30), ("stones", 20), ("leaves", 50))


def write_run(folder, config, segments, until=None, lift=0.0):
    """A run's folder; one that has come to step `until` of its stream, or is finished."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
    names, total = [name for name, _ in segments], sum(steps for _, steps in segments)
    ends = [sum(steps for _, steps in segments[: k + 1]) for k in range(len(segments))]
    detects = config.method == "m2d3-pets"
    metrics, events = [], []
    for step in range(10, (until or total) + 1, 10):
        shares = {name: 1 / len(names) for name in names}
        line = {
            "step": step,
            "loss": 2 / math.sqrt(step),
            "accuracy": 0.3 + step / 400,
            "replay_loss": None,
            "statistic": 0.4 if detects and step in ends else 0.01 if detects else None,
            "threshold": 0.1 if detects else None,
            "latent_domain": sum(step > end for end in ends) if detects else 0,
            "variance_ratio": 0.9 if detects else None,
            "steps_per_s": 20.0,
        }
        memory = {} if config.method == "sequential" else {"memory_true": shares, "memory": {}}
        if detects:
            found = line["latent_domain"] + 1
            memory["sampling"] = {str(label): 1 / found for label in range(found)}
        metrics.append(line | memory)
        if step in ends:
            accuracy = {name: 0.4 + lift + 0.01 * k for k, name in enumerate(names)}
            events.append({"step": step, "event": "evaluation", "accuracy": accuracy})
            if detects and step != total:
                change = {"at_step": step + 4, "started_at": step, "statistic": 0.4}
                events.append({"step": step + 5, "event": "change", "threshold": 0.1} | change)
    for name, lines in (("metrics", metrics), ("events", events)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    if until is not None:
        (folder / ".lock").write_text("1\n")
    else:
        write_json(folder / "summary.json", _summary(config, segments, names, total, lift))


def _summary(config, segments, names, total, lift):
    each = {
        n: {"mean": 0.4 + lift + 0.1 * k, "ci95": 0.02, "tasks": 9} for k, n in enumerate(names)
    }
    found = {"true_changes": 2, "detected": 2, "false_alarms": 0, "mean_delay": 4.0, "f1": 1.0}
    memory = {"capacity": 4, "bytes": 2e6, "shares_by_true_domain": dict.fromkeys(names, 1 / 3)}
    return {
        "method": config.method,
        "oracle": config.method == "balanced-oracle",
        "learner": config.learner,
        "shots": config.shots,
        "seed": config.seed,
        "steps": total,
        "accuracy": {"mean": 0.5 + lift, "ci95": 0.01, "per_domain": each},
        "forgetting": 0.03,
        "backward_transfer": -0.03,
        "detection": found if config.method == "m2d3-pets" else None,
        "memory": None if config.method == "sequential" else memory | {"min_share": 1 / 3},
        "timing": {"wall_s": 12.0, "steps_per_s": 8.3, "overhead": {"data": 0.05}},
        "versions": {"metadrift": "0"},
        "segments": [list(segment) for segment in segments],
    }


@pytest.fixture(scope="session")
def write_comparison():
    """Writes the folder of a comparison: names to methods, seeds 0 and 1, some runs unfinished."""

    def write(folder, variants, segments=SEGMENTS, unfinished=(), title="a title", **more):
        settings = {"scale": 0.01}
        table = {name: {"method": method} for name, method in variants.items()}
        reference = next(iter(table))
        grid = Grid(title, table, seeds=(0, 1), reference=reference, settings=settings, **more)
        folder.mkdir(parents=True)
        write_json(folder / "grid.json", grid.to_json())
        for cell in grid.cells():
            until = 40 if cell.name in unfinished else None
            lift = 0.02 * list(table).index(cell.variant) + 0.01 * cell.seed
            write_run(folder / cell.name, cell.config, segments, until, lift)
        gather(grid, folder)
        return folder

    return write


@pytest.fixture(scope="session")
def comparison(tmp_path_factory, write_comparison):
    """Three methods and an oracle, two seeds each, all finished."""
    methods = ("reservoir", "sequential", "m2d3-pets", "balanced-oracle")
    folder = tmp_path_factory.mktemp("report") / "c"
    return write_comparison(folder, {method: method for method in methods})


@pytest.fixture
def browser(tmp_path):
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("chromium is not installed")
    opened = Browser(program, tmp_path / "profile")
    yield opened
    opened.close()


FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
]


class Browser:
    """One page; `complaints` gathers console errors, exceptions, dialogs and blocked scripts."""

    def __init__(self, program, profile):
        hear, self._write = os.pipe()
        self._read, say = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        line = f'exec "$@" 3<&{hear} 4>&{say}'
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", program, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(hear, say),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(hear)
        os.close(say)
        self._numbers, self._rest, self._session = itertools.count(1), b"", None
        self.complaints, self.requests, self._loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path, width=1200, height=900, dark=False):
        feature = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=feature)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self._loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + 60
        while not self._loaded and time.monotonic() < deadline:
            self._take()

    def run(self, script):
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def point(self, selector, along=0.5):
        """Move the mouse over an element, so far along it."""
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.run(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        x, y = box["x"] + along * box["width"], box["y"] + box["height"] / 2
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector):
        x, y = self.point(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path, whole=True):
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method, **params):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._take()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def close(self):
        with contextlib.suppress(Exception):
            self._session = None
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def _take(self):
        deadline = time.monotonic() + 60
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], deadline - time.monotonic())
            assert ready, "Chromium does not answer"
            self._rest += os.read(self._read, 1 << 20)
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        kind, params = message.get("method"), message.get("params", {})
        if kind == "Page.loadEventFired":
            self._loaded = True
        elif (
            kind == "Runtime.exceptionThrown"
            or (
                kind == "Runtime.consoleAPICalled"
                and params["type"] in ("error", "warning", "assert")
            )
            or (kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"))
        ):
            self.complaints.append(params)
        elif kind == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif kind == "Page.javascriptDialogOpening":
            self.complaints.append(params)
        return message
