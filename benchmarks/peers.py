"""Other libraries to compare with, in an environment of their own: .bench/venv, made on first use.

None becomes a dependency. Versions follow constraints.txt. A peer is installed without its own
dependencies, which often ask for an older torch or numpy; what it needs to be imported is listed
here. What does not install or import is left out, and the reason is kept in peers.json beside it.
"""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".bench" / "venv"
PYTHON = VENV / "bin" / "python"
NEEDS: dict[str, tuple[str, ...]] = {  # the peer's module: what else it imports
    "higher": (),
    "torchopt": ("optree", "graphviz", "typing_extensions"),
    "river": ("scipy", "narwhals"),
    "frouros": ("scipy", "tqdm", "requests", "matplotlib"),
    "alibi_detect": (
        *("scipy", "scikit-learn", "pandas", "dill", "catalogue", "pydantic", "toml", "tqdm"),
        *("requests", "matplotlib", "pillow", "transformers", "numba"),
    ),
}
CHECKS = {"alibi_detect": "from alibi_detect.cd import MMDDriftOnline"}
PATIENCE_S = 300


def python() -> str:
    """The environment's own Python, with torch and numpy; made if it is not there yet."""
    if not PYTHON.exists():
        venv.create(VENV, with_pip=True)
        pip = [str(PYTHON), "-m", "pip", "install", "--quiet"]
        constraints = str(ROOT / "constraints.txt")
        subprocess.run([*pip, "-c", constraints, "torch", "numpy"], check=True)
    return str(PYTHON)


def missing(peer: str) -> str:
    """Empty when the peer can be used, else a sentence on why not."""
    notes = VENV / "peers.json"
    known: dict[str, str] = json.loads(notes.read_text()) if notes.exists() else {}
    if peer not in known:
        known[peer] = _import(peer) and (_install(peer) or _import(peer))
        notes.write_text(json.dumps(known, indent=1) + "\n")
    return known[peer]


def _install(peer: str) -> str:
    pip = [python(), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
    if not NEEDS[peer]:
        return _try([*pip, "--no-deps", peer])
    needs = _try([*pip, *NEEDS[peer]])
    return needs or _try([*pip, "--no-deps", peer.replace("_", "-")])


def _import(peer: str) -> str:
    return _try([python(), "-c", CHECKS.get(peer, f"import {peer}")])


def _try(command: list[str]) -> str:
    """Empty when the command succeeds, else the last line that it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return f"nothing after {PATIENCE_S} s"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"\W*(\w*Error|error)\b", line)] or lines
    reason = (errors or ["it failed without a word"])[-1]
    return "" if done.returncode == 0 else textwrap.shorten(reason, 80)
