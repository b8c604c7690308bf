"""Several hosts of PostgreSQL in a URI: a board goes on at the one that can be written to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harnesses.busy_board import goes_on
from harnesses.working import work
from servers.base import HOST, free_port
from servers.patroni_servers import PROGRAM, PatroniPair
from servers.postgresql_servers import PostgresqlServer, as_user, give_to_user, programs

from jobboard import BoardUnavailable, fetch
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)


def test_a_host_that_is_down_is_passed_over(postgresql: PostgresqlServer) -> None:
    with fetch("hosts", f"postgresql://postgres@{HOST}:{free_port()},{HOST}:{postgresql.port}/jobs") as board:
        work(board)


class _Standby(PostgresqlServer):
    def __init__(self, primary: PostgresqlServer) -> None:
        super().__init__()
        self._is_made = True
        give_to_user(self.folder)
        source = ("-h", HOST, "-p", primary.port, "-U", "postgres")
        copy = as_user(programs() / "pg_basebackup", "-D", self._data, "-R", "-N", "--checkpoint=fast", *source)
        subprocess.run(copy, check=True, cwd=self.folder)

    def start(self) -> PostgresqlServer:
        super(PostgresqlServer, self).start()
        return self

    def promote(self) -> None:
        command = as_user(programs() / "pg_ctl", "promote", "-D", self._data)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)


def test_a_board_goes_on_at_a_standby_that_is_promoted_under_load(tmp_path: Path) -> None:
    """The standby is synchronous: it has all that was answered."""
    with PostgresqlServer() as primary, _Standby(primary) as standby:
        with primary.client() as client:
            client.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            client.execute("SELECT pg_reload_conf()")
            states = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            eventually(lambda: client.execute(states).fetchone() == (1,))
        with pytest.raises(BoardUnavailable):
            fetch("hosts", standby.uri).connect(5.0)
        uri = f"postgresql://postgres@{HOST}:{primary.port},{HOST}:{standby.port}/jobs"

        def fail_over() -> None:
            primary.kill()
            standby.promote()

        goes_on(fail_over, uri, tmp_path)


@pytest.mark.skipif(PROGRAM is None, reason="needs Patroni")
def test_a_board_goes_on_when_patroni_switches_over_under_load(tmp_path: Path) -> None:
    """The first host becomes the standby of the other one, and the primary again."""
    with PatroniPair() as pair:

        def switch_there_and_back() -> None:
            pair.switch_over()
            pair.switch_over()

        goes_on(switch_there_and_back, pair.uri, tmp_path)
