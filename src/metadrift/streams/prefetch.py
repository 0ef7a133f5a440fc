"""Read ahead in a background thread, without changing the sequence."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

from metadrift.streams.stream import Stream
from metadrift.tasks import TaskBatch

_END = object()


class Prefetch:
    """A stream that has its next batches ready.

    Each batch comes with the state of the stream just after it, so `state_dict` belongs to the last
    returned batch, not to those read ahead. Use it as a context manager, or call `close`.

    Parameters
    ----------
    stream
        Any stream; it belongs to the reading thread until `close`.
    depth
        Batches kept ready.
    """

    def __init__(self, stream: Stream, depth: int = 2) -> None:
        self._stream = stream
        self._depth = depth
        self._state = stream.state_dict()
        self._start()

    def __iter__(self) -> Iterator[TaskBatch]:
        return self

    def __next__(self) -> TaskBatch:
        item, state = self._queue.get()
        if item is _END:
            self._queue.put((item, state))  # asked again, it ends again
            raise StopIteration
        if isinstance(item, BaseException):
            self._queue.put((item, state))
            raise item
        self._state = state
        assert isinstance(item, TaskBatch)
        return item

    def state_dict(self) -> dict[str, Any]:
        return dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.close()
        self._stream.load_state_dict(state)
        self._state = dict(state)
        self._start()

    def close(self) -> None:
        """Stop the thread. The stream continues after the last returned batch."""
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._queue.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)
        self._stream.load_state_dict(self._state)

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._queue: queue.Queue[tuple[object, dict[str, Any]]] = queue.Queue(self._depth)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True, name="metadrift-prefetch")
        self._thread.start()

    def _read(self) -> None:
        # The queue and the flag of this thread: a later _start makes new ones.
        ready, stop = self._queue, self._stop
        while not stop.is_set():
            item: object
            try:
                item = next(self._stream)
            except StopIteration:
                item = _END
            except BaseException as error:
                item = error
            ready.put((item, self._stream.state_dict()))
            if not isinstance(item, TaskBatch):
                return
