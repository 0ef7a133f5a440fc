"""A memory with the shares of the paper's released code: most of it is the first domain's.

    export PYTHONPATH=benchmarks/results
    GRID=margin DATA=FOLDER WITH="--plugin floors:Floors" make measure

In a simulation of the paper's stream that code ended with 165, 31, 24, 24, 24 and 32 of 300
batches: a domain gets its floor, 24 of 300, and what the first one had filled stays. This memory
has the same floor and the same effect, and none of the code's other rules.
"""

from __future__ import annotations

from metadrift.memory import M2D3Memory
from metadrift.memory.arrival import Arrival

FLOOR = 24 / 300


class Floors(M2D3Memory):
    """A full memory takes only batches of a domain below its floor, in place of the largest's."""

    def admit(self, arrival: Arrival) -> int | None:
        self.history.arrive(arrival.label)
        if not self.full:
            return len(self)
        if len(self.slots_of(arrival.label)) >= FLOOR * self.capacity:
            return None
        counts = self.counts()
        return self._random_slot_of(max(counts, key=lambda label: counts[label]))
