"""Headless Chromium over its debugging pipe: messages are JSON, each ended by a zero byte."""

import base64
import contextlib
import itertools
import json
import os
import select
import subprocess
import time

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
    """One page; `complaints` gathers console errors, exceptions and what the page's policy blocks."""

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
        elif kind == "Runtime.exceptionThrown" or (
            kind == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert")
        ):
            self.complaints.append(params)
        elif kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params)
        elif kind == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif kind == "Page.javascriptDialogOpening":
            self.complaints.append(params)
        return message
