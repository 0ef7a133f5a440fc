"""Read ahead in a background thread, without changing the sequence."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from metadrift.streams.stream import Stream
from metadrift.tasks import TaskBatch


class Prefetch:
    """A stream that has its next batches ready. Use it as a context manager.

    After `close` the stream continues after the last batch that was returned, not after those that
    were read ahead.

    Parameters
    ----------
    stream
        Any stream; it belongs to the reading thread until `close`.
    depth
        Batches kept ready.
    """

    def __init__(self, stream: Stream, depth: int = 2) -> None:
        self._stream = stream
        self._state = stream.state_dict()
        self._thread = ThreadPoolExecutor(1, "metadrift-prefetch")
        self._ready: deque[Future[tuple[TaskBatch, dict[str, Any]]]] = deque()
        for _ in range(depth):
            self._read_another()

    def __iter__(self) -> Iterator[TaskBatch]:
        return self

    def __next__(self) -> TaskBatch:
        # An error, or the end, stays the first of the line: asked again, it comes again.
        batch, self._state = self._ready[0].result()
        self._ready.popleft()
        self._read_another()
        return batch

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(cancel_futures=True)
        self._stream.load_state_dict(self._state)

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_another(self) -> None:
        self._ready.append(
            self._thread.submit(lambda: (next(self._stream), self._stream.state_dict()))
        )
