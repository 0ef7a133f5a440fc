"""Signs of life: which processes of a group still run, while one of them waits for the others.

A connection shows that a process has ended. It does not show that a process was stopped, or that
its machine is gone. So a thread of every process counts in the store that all of them share.
"""

from __future__ import annotations

import threading
import time

from torch.distributed.distributed_c10d import PrefixStore, Store

EVERY = 1.0  # seconds from beat to beat
SILENCE = 15.0  # seconds without a beat after which a process counts as gone


class Heartbeats:
    """Sends the beats of this process, and watches those of the others.

    Parameters
    ----------
    store
        The store that the processes share. The beats have their own connection to it.
    rank, size
        The number of this process, and of how many.
    silence
        Seconds without a beat after which a process counts as gone.
    """

    def __init__(self, store: Store, rank: int, size: int, silence: float = SILENCE) -> None:
        # Not the group's connection: a thread that waits on it keeps the others off it.
        own = store.clone()  # type: ignore[attr-defined]  # torch's stubs lack it
        self._store = PrefixStore("beats", own)
        self._silence = silence
        now = time.monotonic()
        self._others = {other: (0, now) for other in range(size) if other != rank}
        self._asked = now
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, args=(str(rank),), daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise a RuntimeError if another process has been silent for too long."""
        now = time.monotonic()
        if now - self._asked < EVERY:
            return
        if now - self._asked > self._silence / 2:  # it was not called: count the silence from now
            self._others = {other: (beats, now) for other, (beats, _) in self._others.items()}
        self._asked = now
        for other, (before, since) in self._others.items():
            beats = self._store.add(str(other), 0)
            if beats != before:
                self._others[other] = (beats, now)
            elif now - since > self._silence:
                raise RuntimeError(f"process {other} gave no sign of life for {now - since:.0f} s")

    def close(self) -> None:
        """Stop the beats."""
        self._ended.set()
        self._thread.join()

    def _beat(self, name: str) -> None:
        while not self._ended.wait(EVERY):
            try:
                self._store.add(name, 1)
            except RuntimeError:  # the store is gone, and with it the group
                return
