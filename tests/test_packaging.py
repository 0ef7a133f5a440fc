"""What the package is outside this machine: its names, and other systems."""

import ast
from pathlib import Path

import metadrift

ROOT = Path(__file__).parents[1]
UNIX_ONLY = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}


def test_dir_lists_what_the_package_offers():
    assert set(metadrift.__all__) <= set(dir(metadrift))
    assert "ContinualMetaLearner" in dir(metadrift)
    for name in dir(metadrift):
        getattr(metadrift, name)


def test_no_module_needs_unix_to_be_imported():
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not UNIX_ONLY & set(names), f"{file}, line {node.lineno}"
