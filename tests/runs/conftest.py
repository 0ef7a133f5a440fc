import pytest

from metadrift.runs.config import LearnerConfig, RunConfig


@pytest.fixture
def tiny_config(tiny_benchmark):
    """A reservoir with a network of four filters on the tiny domains."""
    return RunConfig(
        benchmark=str(tiny_benchmark),
        method="reservoir",
        ways=3,
        queries=2,
        threads=1,
        device="cpu",
        learn=LearnerConfig(filters=4),
    )
