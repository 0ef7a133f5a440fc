"""Reservoir: Vitter's algorithm R on the arriving batches, uniform replay."""

from __future__ import annotations

from metadrift.methods.replaying import ReplayingMethod


class Reservoir(ReplayingMethod):
    """Keeps every batch of the stream with the same probability; its memory is a ReservoirMemory.

    References
    ----------
    Vitter, Random sampling with a reservoir, 1985. Chaudhry et al., On tiny episodic memories in
    continual learning, 2019.
    """
