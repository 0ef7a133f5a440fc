"""Streams: an order of domains, with a number of steps each, as a sequence of task batches."""

from metadrift.streams.benchmark import Benchmark, Segment, load_benchmark, open_packs
from metadrift.streams.stream import JointStream, Stream, TaskStream
from metadrift.streams.truth import Truth

__all__ = [
    "Benchmark",
    "JointStream",
    "Segment",
    "Stream",
    "TaskStream",
    "Truth",
    "load_benchmark",
    "open_packs",
]
