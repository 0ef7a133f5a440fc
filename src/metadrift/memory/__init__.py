"""Memory of the stream with a fixed budget: storage (`Buffer`) and policies (`Memory`)."""

from metadrift.memory.arrival import Arrival
from metadrift.memory.base import Memory
from metadrift.memory.buffer import Buffer
from metadrift.memory.gss import GSSMemory
from metadrift.memory.history import LabelHistory
from metadrift.memory.importance import ClusterImportance
from metadrift.memory.loss_aware import LossAwareMemory
from metadrift.memory.m2d3 import M2D3Memory
from metadrift.memory.reservoir import ReservoirMemory
from metadrift.memory.shares import LearnedShares

__all__ = [
    "Arrival",
    "Buffer",
    "ClusterImportance",
    "GSSMemory",
    "LabelHistory",
    "LearnedShares",
    "LossAwareMemory",
    "M2D3Memory",
    "Memory",
    "ReservoirMemory",
]
