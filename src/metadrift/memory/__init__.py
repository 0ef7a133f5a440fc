"""What is kept of the stream: storage (`Buffer`) and policies (`Memory`) for a fixed budget."""

from metadrift.memory.base import Memory
from metadrift.memory.buffer import Buffer
from metadrift.memory.reservoir import ReservoirMemory

__all__ = ["Buffer", "Memory", "ReservoirMemory"]
