"""What is drawn from memory, with what weight, and in what form it is learned again."""

from metadrift.replay.base import Replay, ReplaySampler
from metadrift.replay.uniform import UniformReplay

__all__ = ["Replay", "ReplaySampler", "UniformReplay"]
