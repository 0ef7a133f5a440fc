"""What the package is outside this machine: its names, other systems, its dependencies."""

import ast
import tomllib
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


def test_every_dependency_has_a_floor_and_a_tested_version_above_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    for dependency in project["dependencies"]:
        name, floor = dependency.split(">=")  # the form that `make lowest` reads
        assert numbers(tested[name]) >= numbers(floor), dependency


def numbers(version):
    return [int(part) for part in version.split(".")]
