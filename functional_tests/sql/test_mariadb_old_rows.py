"""What keeps MariaDB from purging old rows is found by the status and the doctor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from servers.mariadb_servers import MariadbServer

from jobboard import JobBoard, backend
from jobboard.operate import doctor
from jobboard.operate.overview import overview
from jobboard.operate.status import status
from jobboard.operate.verdict import Finding, Limits, findings
from jobboard.testing import eventually

AT_ONCE = Limits(held_back=-1.0)
#: Looks at least so far apart, in seconds: the server repeats what it said of transactions until nobody has asked for a
#: tenth of a second (InnoDB's cache of innodb_trx).
APART = 0.2


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbServer]:
    # A session knows its own time zone, and not the one in which the server says when a transaction began.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "EST5")
        with MariadbServer() as server:
            yield server


@pytest.fixture
def board(mariadb: MariadbServer) -> Iterator[JobBoard]:
    with backend("b", mariadb.uri) as board:
        board.post("resize")
        yield board


@contextlib.contextmanager
def transaction(mariadb: MariadbServer, level: str = "REPEATABLE READ") -> Iterator[str]:
    """A transaction that has read a row; yields the number of its connection."""
    with mariadb.client() as client, client.cursor() as cursor:
        cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        cursor.execute("BEGIN")
        cursor.execute("SELECT count(*) FROM jobboard_jobs")
        cursor.execute("SELECT CONNECTION_ID()")
        yield str(cursor.fetchone()[0])


def found(board: JobBoard, limits: Limits = AT_ONCE) -> list[Finding]:
    return [finding for finding in findings(overview(board), limits) if finding.kind == "held_back"]


def test_transactions_are_named_and_their_end_ends_the_finding(mariadb: MariadbServer, board: JobBoard) -> None:
    with transaction(mariadb), transaction(mariadb), transaction(mariadb):
        [finding] = eventually(lambda: [each for each in found(board) if "and 2 more" in each.text], every=APART)
        assert finding.about
        assert "A transaction of root@" in finding.text
        assert "holds back the purge for " in finding.text
        assert found(board, Limits()) == [], "ten minutes are well"
        with mariadb.client() as operator, operator.cursor() as cursor:
            cursor.execute(finding.text.rpartition("End it: ")[2])
        eventually(lambda: finding.about not in [each.about for each in found(board)], every=APART)
    eventually(lambda: found(board) == [], every=APART)


def test_a_transaction_that_keeps_no_snapshot_holds_nothing_back(mariadb: MariadbServer, board: JobBoard) -> None:
    with transaction(mariadb, "READ COMMITTED"), transaction(mariadb) as holder:
        eventually(lambda: [each.about for each in found(board)] == [holder], every=APART)


def test_the_status_and_the_doctor_tell(
    mariadb: MariadbServer, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "Limits", lambda: AT_ONCE)
    with transaction(mariadb):
        eventually(
            lambda: "held_back" in [finding["kind"] for finding in status(board, AT_ONCE)["findings"]], every=APART
        )
        board.close()
        assert ("held_back", None) in [(each.subject, each.well) for each in doctor.examine(board)]


def test_who_may_not_see_others_is_told_nothing(mariadb: MariadbServer, board: JobBoard) -> None:
    with mariadb.client() as client, client.cursor() as cursor:
        cursor.execute("CREATE USER app@'%'")
        cursor.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON jobs.* TO app@'%'")
    with transaction(mariadb), backend("b", mariadb.uri.replace("root@", "app@")) as limited:
        eventually(lambda: len(found(board)) == 1, every=APART)
        assert found(limited) == []
