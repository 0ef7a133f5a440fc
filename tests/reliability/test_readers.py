"""Damaged files for every reader; benchmarks/fuzz_readers.py does the same in large numbers."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fuzz_files import READERS
from fuzz_readers import attempt, mutate, prepare

# numpy's word on a header that a mutation made look like one of Python 2
pytestmark = pytest.mark.filterwarnings("ignore:Reading .*npy.* required additional header parsing")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The good files of each reader, made when first asked for, and their bytes."""
    home, made = tmp_path_factory.mktemp("readers"), {}

    def get(name):
        if name not in made:
            made[name] = (home / name, prepare(READERS[name], home / name))
        return made[name]

    return get


@pytest.mark.parametrize("name", READERS)
@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rng=st.randoms(use_true_random=False))
def test_any_damage_is_read_or_refused_in_one_sentence(name, rng, good):
    folder, data = good(name)
    case = mutate(data, rng)
    assert attempt(READERS[name], folder, case, folder.with_name("case")) in ("read", "refused")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("case", [b"", b"\0" * 4096, b"{" * 9000, b"\xff" * 99, b"\x80\x04\x95."])
def test_nonsense_is_read_or_refused_in_one_sentence(name, case, good):
    folder, _ = good(name)
    assert attempt(READERS[name], folder, case, folder.with_name("case")) in ("read", "refused")


def test_a_reader_that_lets_an_error_through_would_be_noticed(good, tmp_path):
    folder, _ = good("pack-json")
    broken = type(READERS["pack-json"])(READERS["pack-json"].make, lambda file: file.index(3))
    with pytest.raises(AttributeError):
        attempt(broken, folder, b"{}", tmp_path / "case")
