"""Replay: which stored batches to draw, their weights, and how to transform them."""

from metadrift.replay.base import Replay, ReplaySampler
from metadrift.replay.by_cluster import ByCluster
from metadrift.replay.dark import dark_term
from metadrift.replay.learned import LearnedReplay
from metadrift.replay.mir import candidates, most_interfered
from metadrift.replay.pets import PETS
from metadrift.replay.transforms import FreshTasks, Resplit, Shift, Transform, Turn
from metadrift.replay.uniform import UniformReplay
from metadrift.replay.weighting import domain_balance
from metadrift.replay.wider import put_together

__all__ = [
    "PETS",
    "ByCluster",
    "FreshTasks",
    "LearnedReplay",
    "Replay",
    "ReplaySampler",
    "Resplit",
    "Shift",
    "Transform",
    "Turn",
    "UniformReplay",
    "candidates",
    "dark_term",
    "domain_balance",
    "most_interfered",
    "put_together",
]
