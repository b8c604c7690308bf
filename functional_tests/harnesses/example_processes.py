"""A pytest plugin: the processes of the applications in ``examples/``, started as their READMEs say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.redis_servers import RedisServer

from harnesses.examples import Run
from harnesses.logged_processes import logged_processes

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Start ``python -m MODULE ...`` with the examples at hand."""
    with logged_processes(tmp_path) as start:
        yield lambda *words: start([sys.executable, "-m", *words], PYTHONPATH=str(EXAMPLES))
