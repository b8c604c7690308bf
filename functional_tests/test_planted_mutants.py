"""The differential test catches faults in the shorter paths of stores: each case plants one, and the test must fail.

One for SQLite is in ``tests/test_lifecycle_differential.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import pytest
from harnesses.redis_harness import RedisHarness
from harnesses.sql_harness import PostgresqlHarness
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from sqlalchemy import text

from jobboard.backends.redis.scripts import Script, load_scripts
from jobboard.backends.sql.postgresql import fast_path as postgresql
from jobboard.backends.sql.statement import Statement
from jobboard.testing import Harness
from jobboard.testing.differential import check_lifecycle


def changed(source: str, old: str, new: str) -> str:
    """Return a source with a fault in it."""
    assert old in source
    return source.replace(old, new)


def check_that_it_is_caught(harness: Harness) -> None:
    with harness, pytest.raises(AssertionError, match="seed"):
        check_lifecycle(harness, 15)


def test_a_script_that_ends_claims_of_any_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted() -> Mapping[str, Script]:
        scripts = dict(load_scripts())
        source = changed(scripts["consume"].source.decode(), " or its_token ~= token", "").encode()
        sha = hashlib.sha1(source, usedforsecurity=False).hexdigest()
        scripts["consume"] = replace(scripts["consume"], source=source, sha=sha)
        return scripts

    monkeypatch.setattr("jobboard.backends.redis.client.load_scripts", planted)
    with RedisServer() as server:
        check_that_it_is_caught(RedisHarness(server.uri))


def test_a_statement_that_ends_claims_of_any_token(monkeypatch: pytest.MonkeyPatch) -> None:
    statement = changed(str(postgresql.CONSUME.clause), "AND job.token = ends.token", "")
    monkeypatch.setattr(postgresql, "CONSUME", Statement(text(statement)))
    with PostgresqlServer() as server:
        check_that_it_is_caught(PostgresqlHarness(server.uri))
