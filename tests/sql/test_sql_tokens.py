"""The tokens of the stores in SQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from jobboard.backends.sql.tokens import least_token, next_token, next_token_in_sql

NOW = 1_795_700_000.123456


@pytest.mark.parametrize("moment", [NOW, NOW + 0.00002, NOW - 3600.0])
@pytest.mark.parametrize("claims_before", [0, 1, 31, 32, 33, 1000])
def test_each_token_is_larger_than_the_last_whatever_the_clock_does(moment: float, claims_before: int) -> None:
    token = 0
    for _ in range(claims_before):
        token = next_token(token, least_token(NOW))
    assert next_token(token, least_token(moment)) > max(token, least_token(moment))


def test_a_later_claim_has_a_larger_token_than_one_that_the_database_has_forgotten() -> None:
    kept = next_token(0, least_token(NOW))
    lost = next_token(next_token(kept, least_token(NOW + 1)), least_token(NOW + 1))
    assert next_token(kept, least_token(NOW + 1.001)) > lost
    # Nor does one of a job that was purged meanwhile, and whose row was another.
    assert next_token(0, least_token(NOW + 1.001)) > lost


def test_a_reader_of_json_gets_them_whole() -> None:
    assert next_token(0, least_token(NOW + 30 * 365 * 86400)) < 2**53


@pytest.mark.parametrize("token", [0, 1, 16777217, least_token(NOW) + 31, least_token(NOW) + 32, 1 << 60])
@pytest.mark.parametrize("moment", [NOW, 0.0])
def test_sql_makes_the_same(token: int, moment: float) -> None:
    values = {"token": token, "least": least_token(moment)}
    with closing(sqlite3.connect(":memory:")) as connection:
        [(made,)] = connection.execute(f"SELECT {next_token_in_sql(':least', ':token')}", values)
    assert made == next_token(token, least_token(moment))
