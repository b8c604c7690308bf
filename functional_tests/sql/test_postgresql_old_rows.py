"""What keeps PostgreSQL from removing old rows is found by the status and the doctor."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from servers.base import HOST, RunningServer, free_port
from servers.postgresql_servers import PostgresqlServer, as_user, give_to_user, programs

from jobboard import JobBoard, backend
from jobboard.operate import doctor
from jobboard.operate.overview import overview
from jobboard.operate.status import status
from jobboard.operate.verdict import Finding, Limits, findings
from jobboard.testing import eventually

AT_ONCE = Limits(held_back=0.0)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer({"max_prepared_transactions": "5"}) as server:
        yield server


@pytest.fixture
def board(server: PostgresqlServer) -> Iterator[JobBoard]:
    with backend("b", server.uri) as board:
        yield board


@contextlib.contextmanager
def transaction(server: PostgresqlServer, *statements: str, **options: str) -> Iterator[psycopg.Connection[object]]:
    with contextlib.closing(server.client(**options)) as client:
        client.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        for statement in ("SELECT 1 FROM jobboard_jobs", *statements):
            client.execute(statement.encode())
        yield client
        # The server ends a connection some time after its client has closed it.
        with contextlib.suppress(psycopg.OperationalError):
            client.execute("ROLLBACK")


def found(board: JobBoard, limits: Limits) -> list[Finding]:
    return [finding for finding in findings(overview(board), limits) if finding.kind == "held_back"]


def test_a_board_alone_holds_nothing_back(board: JobBoard) -> None:
    board.post("resize")
    assert found(board, AT_ONCE) == []


def test_the_oldest_transaction_is_named_and_its_end_ends_the_finding(
    server: PostgresqlServer, board: JobBoard
) -> None:
    with (
        transaction(server, application_name="report") as oldest,
        transaction(server) as second,
        transaction(server),
    ):
        [finding] = found(board, AT_ONCE)
        assert finding.about == str(oldest.info.backend_pid)
        assert "A transaction of postgres, report, 127.0.0.1" in finding.text
        assert "holds back VACUUM for " in finding.text
        assert "and 2 more" in finding.text
        assert found(board, Limits()) == [], "ten minutes are well"
        with server.client() as operator:
            operator.execute(finding.text.rpartition("End it: ")[2].encode())
        eventually(lambda: [each.about for each in found(board, AT_ONCE)] == [str(second.info.backend_pid)])
    assert found(board, AT_ONCE) == []


def test_a_transaction_that_only_reads_what_is_committed_holds_nothing_back(
    server: PostgresqlServer, board: JobBoard
) -> None:
    with server.client() as client:
        client.execute("BEGIN")
        client.execute("SELECT 1 FROM jobboard_jobs")
        assert found(board, AT_ONCE) == []
        client.execute("CREATE TEMPORARY TABLE mine (n int) ON COMMIT DROP")
        assert [each.about for each in found(board, AT_ONCE)] == [str(client.info.backend_pid)]


def test_a_prepared_transaction_is_found(server: PostgresqlServer, board: JobBoard) -> None:
    name = "it's mine"
    with transaction(server, "SELECT pg_current_xact_id()") as client:
        client.execute(b"PREPARE TRANSACTION 'it''s mine'")
    [finding] = found(board, AT_ONCE)
    assert (finding.about, finding.verdict.name) == (name, "ATTENTION")
    with server.client() as operator:
        operator.execute(finding.text.rpartition("End it: ")[2].encode())
    assert found(board, AT_ONCE) == []


def test_the_status_and_the_doctor_tell(
    server: PostgresqlServer, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "Limits", lambda: AT_ONCE)
    with transaction(server):
        view = status(board, AT_ONCE)
        assert "held_back" in [finding["kind"] for finding in view["findings"]]
        board.close()
        assert [(each.subject, each.well) for each in doctor.examine(board)][-1] == ("held_back", None)


def test_those_of_other_users_are_found_with_a_right_to_see_them(server: PostgresqlServer, board: JobBoard) -> None:
    with server.client() as client:
        client.execute("CREATE ROLE app LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
    with transaction(server), backend("b", server.uri.replace("postgres@", "app@")) as limited:
        assert found(limited, AT_ONCE) == []
        with server.client() as client:
            client.execute("GRANT pg_read_all_stats TO app")
        assert len(found(limited, AT_ONCE)) == 1


class Standby(RunningServer):
    """A copy of a server that follows it by a slot, and tells it what its queries see."""

    def __init__(self, server: PostgresqlServer) -> None:
        super().__init__([])
        give_to_user(self.folder)
        self.port, data = free_port(), self.folder / "data"
        copy = ["pg_basebackup", "-h", HOST, "-p", server.port, "-U", "postgres", "-D", data, "-R", "-c", "fast", "-N"]
        slot = ["-X", "stream", "-C", "-S", "standby"]
        program, *arguments = copy
        subprocess.run(as_user(programs() / str(program), *arguments, *slot), check=True, cwd=self.folder)
        settings = {
            "port": self.port, "listen_addresses": HOST, "unix_socket_directories": "", "fsync": "off",
            "hot_standby_feedback": "on", "wal_receiver_status_interval": "1s",
            # It must have room for all that its server has.
            "max_connections": 150, "max_prepared_transactions": 5,
        }  # fmt: skip
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self.command = as_user(programs() / "postgres", "-D", data, *given)

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(host=HOST, port=self.port, user="postgres", dbname="jobs").close()
            return True
        return False


def test_the_slot_of_a_standby_that_is_gone_is_found(server: PostgresqlServer, board: JobBoard) -> None:
    with server.client() as client:

        def has_xmin() -> bool:
            return client.execute("SELECT xmin IS NOT NULL FROM pg_replication_slots").fetchall() == [(True,)]

        with Standby(server):
            eventually(has_xmin, within=60)
            assert found(board, AT_ONCE) == [], "it goes on while its standby reads it"
        eventually(lambda: found(board, AT_ONCE))
        [finding] = found(board, Limits())
        assert finding.about == "standby"
        client.execute(finding.text.rpartition("End it: ")[2].encode())
        assert found(board, AT_ONCE) == []
