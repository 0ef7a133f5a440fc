"""Every random use has numbers of its own."""

import itertools
import re
from pathlib import Path

import numpy as np

from metadrift.randomness import Purpose, generator, torch_generator

SRC = Path(__file__).parents[1] / "src" / "metadrift"


def test_no_two_purposes_seeds_or_keys_give_the_same_numbers():
    uses = itertools.product(range(3), Purpose, [(), (0,), (1,), (2,), (1, 0)])
    drawn = [int(generator(seed, purpose, *key).integers(2**63)) for seed, purpose, key in uses]
    assert len(set(drawn)) == len(drawn)


def test_a_purpose_differs_from_a_plain_seed_of_the_same_numbers():
    """numpy's [seed, number] was shared by the memory and the stream's first step."""
    plain = np.random.default_rng([0, int(Purpose.MEMORY)]).integers(2**63)
    assert generator(0, Purpose.MEMORY).integers(2**63) != plain


def test_torch_gets_numbers_of_its_own_for_each_purpose():
    seeds = {torch_generator(0, purpose).initial_seed() for purpose in Purpose}
    assert len(seeds) == len(Purpose)


def test_no_room_of_a_run_makes_generators_in_another_way():
    """`data` draws the built-in pictures and class splits by published seeds of its own.

    `checks` makes generators to try parts with, outside of any run.
    """
    for file in SRC.rglob("*.py"):
        code = re.sub(r'""".*?"""', "", file.read_text(encoding="utf-8"), flags=re.S)
        if file.relative_to(SRC).parts[0] not in ("randomness.py", "checks.py", "data"):
            assert not re.search(r"default_rng\(|manual_seed\(|SeedSequence\(", code), file
