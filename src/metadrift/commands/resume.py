"""`metadrift resume`: continue a run that was stopped."""

from __future__ import annotations

from pathlib import Path

import tyro

from metadrift.commands.arguments import call
from metadrift.commands.run import show_summary


def main(words: list[str]) -> int:
    return call(resume, "resume", words)


def resume(
    run: tyro.conf.Positional[Path], /, plugin: tuple[str, ...] = (), json: bool = False
) -> int:
    """Continue a run that was stopped or killed, from its last checkpoint.

    For a finished run it only prints the result.

    Parameters
    ----------
    run
        The run's folder.
    plugin
        Your own code that the run uses. Name it again: package.module:Name or file.py:Name. A run's
        folder alone never makes metadrift load code.
    json
        Print the summary as JSON and show no progress.
    """
    from metadrift.distributed.group import joined
    from metadrift.learners.allocator import keep_freed_memory
    from metadrift.runs.loop import go_on

    keep_freed_memory()
    with joined() as group:
        summary = go_on(run, json, group)
        if group.leads:
            show_summary(summary, run, json)
    return 0
