"""Every line of the lists of threats and of promises names a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def rows_of(text, heading):
    section = text.split(heading)[1].split("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize(
    ("page", "heading"),
    [("SECURITY.md", "## Threats"), ("docs/reliability.md", "## What guards each promise")],
)
def test_every_line_is_guarded_by_a_test_that_exists(page, heading):
    rows = rows_of((ROOT / page).read_text(encoding="utf-8"), heading)
    assert len(rows) > 20
    for row in rows:
        if "`SECURITY.md`" in row:
            continue
        guards = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert guards, f"no test in: {row}"
        for file, name in guards:
            tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in names, f"{file} has no {name}"


def test_the_trials_that_guard_promises_exist():
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    named = {
        kind for row in rows_of(text, "## What guards") for kind in re.findall(r"\*(.+?)\*", row)
    }
    assert len(named) > 10
    source = "".join(path.read_text() for path in (ROOT / "benchmarks" / "torture").glob("*.py"))
    assert [kind for kind in sorted(named) if f'"{kind}"' not in source] == []
