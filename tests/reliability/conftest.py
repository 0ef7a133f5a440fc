"""A short benchmark, a tiny configuration, and a process that runs commands and kills them."""

import pytest

from driven import STEPS, Driver, short_config
from tiny_runs import write_benchmark


@pytest.fixture(scope="session")
def short_benchmark(tiny_benchmark):
    """17 steps over the three tiny domains, memory 6."""
    return write_benchmark(tiny_benchmark.with_name("short.toml"), STEPS, memory=6)


@pytest.fixture(scope="session")
def config(short_benchmark):
    return short_config(short_benchmark)


@pytest.fixture(scope="session")
def driver(tmp_path_factory, config):
    started = Driver(tmp_path_factory.mktemp("driver"), config)
    yield started
    started.close()
