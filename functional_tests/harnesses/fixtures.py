"""Fixtures that many suites have: a server of the suite's own, clients of it, and a proxy on their line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from servers.base import HOST
from servers.durable_stores import Store, running
from servers.proxy import Proxy

from jobboard import JobBoard
from jobboard.testing import Harness


def a_server(make: Callable[[], Any]) -> Any:
    """Return a fixture: what ``make`` returns, started once for a suite."""

    @pytest.fixture(scope="module")
    def server() -> Iterator[Any]:
        with make() as server:
            yield server

    return server


def a_store(names: Sequence[str]) -> Any:
    """Return a fixture: a store of each of these kinds, which loses nothing when its server is killed."""

    @pytest.fixture(params=names)
    def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
        with running(request.param, tmp_path) as store:
            yield store

    return store


def a_harness(make: Callable[[str], Harness]) -> Any:
    """Return a fixture: clients of the suite's ``server``."""

    @pytest.fixture
    def harness(server: Any) -> Iterator[Harness]:
        with make(server.uri) as harness:
            yield harness

    return harness


def a_board() -> Any:
    """Return a fixture: a board of the suite's ``harness``."""

    @pytest.fixture
    def board(harness: Harness) -> JobBoard:
        return harness.board()

    return board


def a_proxy() -> Any:
    """Return a fixture: a proxy before the suite's ``server``."""

    @pytest.fixture
    def proxy(server: Any) -> Iterator[Proxy]:
        with Proxy((HOST, server.port)) as proxy:
            yield proxy

    return proxy


def a_harness_behind(make: Callable[[str], Harness]) -> Any:
    """Return a fixture: clients of the suite's ``server`` whose line goes through its ``proxy``."""

    @pytest.fixture
    def behind(server: Any, proxy: Proxy) -> Iterator[Harness]:
        with make(server.uri.replace(f":{server.port}", f":{proxy.port}")) as harness:
            yield harness

    return behind
