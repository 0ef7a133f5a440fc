"""Hostile names on the report page, in headless Chromium."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from trial import Trial, Workshop, expect

KIND = "hostile names on the page"
NAMES = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</title><svg onload=alert(3)>",
    "javascript:alert(4)",
    "{{7*7}}${7*7}",
    "]]><!--",
    "'-alert(5)-'",
    "<style>*{display:none}</style>",
]


def trials() -> Iterator[Trial]:
    for name in NAMES:
        yield Trial(KIND, f"a page with {name!r}", partial(_page, name=name))


def _browser() -> Any:
    """The one of tests/report, which speaks to Chromium through a pipe."""
    file = Path(__file__).parents[2] / "tests" / "report" / "conftest.py"
    found = importlib.util.spec_from_file_location("report_conftest", file)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.Browser


def _page(work: Workshop, place: Path, rng: random.Random, name: str) -> str:
    """The name as a domain, a method, an event and, where it can be one, as the run's folder."""
    run = work.finished(place)
    folder = name.replace("/", "")
    run = run.rename(place / folder)
    for file in ("summary.json", "metrics.jsonl", "events.jsonl"):
        text = (run / file).read_text().replace("middle", json.dumps(name)[1:-1])
        (run / file).write_text(text)
    code, said = work.call(place, "report", run)
    expect(code == 0, said)
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    expect(program is not None, "chromium is not installed")
    browser = _browser()(program, place / "profile")
    try:
        browser.open(run / "report.html")
        heading = browser.run("document.querySelector('h1').textContent")
        scripts = browser.run("document.querySelectorAll('script').length")
        handlers = browser.run(
            "document.querySelectorAll('[onload], [onerror], img[src=x]').length"
        )
        text = browser.run("document.body.textContent")
        shown = browser.run("getComputedStyle(document.body).display")
        fetched = [url for url in browser.requests if not url.startswith(("data:", "file:"))]
        complaints = browser.complaints
    finally:
        browser.close()
    expect(folder in heading and name in text, f"the name is not shown: {heading[:200]}")
    expect((scripts, handlers) == (1, 0), f"{scripts} scripts, {handlers} handlers")
    expect(shown != "none", "a style was taken")
    expect(not complaints and not fetched, f"{complaints} {fetched}")
    return "shown as text"
