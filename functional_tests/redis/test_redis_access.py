"""Access to a Redis board: TLS, users with the least rights, a Unix socket, databases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from harnesses.working import work
from servers.base import HOST, free_port
from servers.redis_rights import USER, allow_least_rights, least_rights
from servers.redis_servers import RedisServer

from jobboard import BoardUnavailable, Conductor, Handlers, NotFound, fetch
from jobboard.backends.redis import waiting
from jobboard.testing import eventually


class TlsServer(RedisServer):
    """Speaks TLS on ``tls_port``, and knows the documentation's user."""

    def __init__(self, folder: Path) -> None:
        self.tls_port = free_port()
        super().__init__(
            {
                "tls-port": str(self.tls_port),
                "tls-cert-file": str(folder / "server.pem"),
                "tls-key-file": str(folder / "server.key"),
                "tls-ca-cert-file": str(folder / "ca.pem"),
                "tls-auth-clients": "yes",
            }
        )


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[TlsServer]:
    with TlsServer(certificates) as server:
        allow_least_rights(server)
        yield server


def tls_uri(server: TlsServer, folder: Path, password: str = USER[1]) -> str:
    files = f"ssl_ca_certs={folder}/ca.pem&ssl_certfile={folder}/client.pem&ssl_keyfile={folder}/client.key"
    return f"rediss://{USER[0]}:{password}@{HOST}:{server.tls_port}/0?{files}&ssl_check_hostname=true"


def test_a_board_works_over_tls_with_the_least_rights(server: TlsServer, certificates: Path) -> None:
    with fetch("secret", tls_uri(server, certificates)) as board:
        work(board)


def test_a_conductor_over_tls_picks_jobs_up_and_waits_no_more_when_it_stops(
    server: TlsServer, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than this test waits for anything.
    monkeypatch.setattr(waiting, "MAX_SLEEP", 600.0)
    ran, handlers = list[str](), Handlers()
    handlers.add("resize", lambda job: ran.append(job.uuid))
    with fetch("conducted", tls_uri(server, certificates)) as board, server.client() as client:
        conductor = Conductor("alice", board, handlers)
        conductor.start()
        for number in range(1, 3):
            eventually(lambda: client.exists("{jobboard:conducted}:waiters"))
            board.post("resize")
            eventually(lambda number=number: len(ran) == number)  # type: ignore[misc]
        eventually(lambda: client.exists("{jobboard:conducted}:waiters"))
        assert conductor.stop()
        eventually(lambda: not client.exists("{jobboard:conducted}:waiters"))


def test_who_may_not_look_at_all_keys_is_told_only_that_a_board_is_missing(
    server: TlsServer, certificates: Path
) -> None:
    with fetch("used", tls_uri(server, certificates)) as board:
        work(board)
    with fetch("used", tls_uri(server, certificates) + "&create=false") as board:
        assert board.connected
    with pytest.raises(NotFound, match=r"no board 'usde' .* \+scan"):
        fetch("usde", tls_uri(server, certificates) + "&create=false").connect()


def test_a_server_of_another_authority_is_refused(server: TlsServer) -> None:
    board = fetch("secret", f"rediss://{USER[0]}:{USER[1]}@{HOST}:{server.tls_port}/0")
    with pytest.raises(BoardUnavailable, match="can't be reached"):
        board.connect()


def test_a_wrong_password_is_one_clear_line(server: TlsServer, certificates: Path) -> None:
    with pytest.raises(BoardUnavailable, match="password") as caught:
        fetch("secret", tls_uri(server, certificates, "guessed")).connect()
    assert "guessed" not in str(caught.value)


def test_the_documentation_has_each_right_that_is_asked_for_and_no_other() -> None:
    """A script asks for it, or the client itself. For RENAME, which only an upgrade calls, the text beside it."""
    scripts = (Path(__file__).parent.parent.parent / "lua").rglob("*.lua")
    sources = "".join(path.read_text() for path in scripts if path.name != "rights.lua")
    of_scripts = {
        "|".join(filter(None, words)).lower()
        for words in re.findall(r"(?:redis\.p?call|write_all)\(\s*'([A-Z]+)'(?:,\s*'([A-Z]+)')?", sources)
    }
    of_client = {"evalsha", "script|load", "script|exists", "ssubscribe", "sunsubscribe", "ping", "exists"}
    documented = {rule.removeprefix("+") for rule in least_rights() if rule.startswith("+")}
    assert documented == of_scripts - {"rename"} | of_client


def refusal_of(server: RedisServer, *rules: str, options: str = "") -> str:
    """Return why a user with these rules can't connect."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "poor", "reset", "on", ">x", *rules)
    with pytest.raises(BoardUnavailable, match="lacks a right") as caught:
        fetch("secret", server.uri_of("poor", "x") + options).connect()
    return str(caught.value)


def test_who_may_call_no_scripts_is_told_so(server: TlsServer) -> None:
    assert "evalsha" in refusal_of(server, "~*", "&*", "-@all", "+exists", "+script")


def test_missing_rights_are_named_before_a_script_can_end_halfway(server: TlsServer) -> None:
    """All of the documentation's rights but those without which nothing can be asked."""
    asking = {"+evalsha", "+script|load", "+script|exists", "+time"}
    told = refusal_of(server, "~*", "&*", "-@all", "+exists", *asking).split(": ")[-1].split(" (")[0].split()
    needed = {rule for rule in least_rights() if rule.startswith("+")}
    assert set(told) == needed - asking - {"+exists"}


def test_another_boards_keys_and_channels_are_no_use(server: TlsServer) -> None:
    refusal_of(server, "~{jobboard:other}*", "&{jobboard:*", "+@all")
    assert ": +spublish +ssubscribe (" in refusal_of(server, "~*", "&{jobboard:other}*", "+@all")


def test_durability_needs_its_own_right(server: TlsServer) -> None:
    assert "+wait " in refusal_of(server, *least_rights()[1:], options="?durability=wait:1:50")


@pytest.mark.parametrize(
    ("options", "login", "reason"),
    [
        ({"requirepass": "sesame"}, "", "it wants a password: redis://:PASSWORD@HOST"),
        ({"requirepass": "sesame"}, ":wrong@", "it refuses this user and password"),
        ({}, "nobody:wrong@", "it refuses this user and password"),
        ({}, ":sesame@", "it has no password; leave it out of the URI"),
    ],
)
def test_a_server_says_what_is_wrong_with_the_login(options: dict[str, str], login: str, reason: str) -> None:
    with RedisServer(options) as server, pytest.raises(BoardUnavailable, match="refuses: " + re.escape(reason)):
        fetch("secret", f"redis://{login}{HOST}:{server.port}").connect()


def test_a_unix_socket_and_a_database_by_number(tmp_path: Path) -> None:
    path = tmp_path / "redis.sock"
    with RedisServer({"unixsocket": str(path)}) as server:
        with fetch("local", f"unix://{path}?db=3") as board:
            work(board)
        with fetch("local", f"redis://{HOST}:{server.port}/3") as board, server.client(db=3) as client:
            board.post("resize")
            assert client.exists("{jobboard:local}:jobs")
        with fetch("local", f"redis://{HOST}:{server.port}/0") as other:
            assert other.job_count == 0


@pytest.mark.parametrize(
    ("uri", "fault"),
    [
        ("redis://h1:1,h2:2/0", "one Redis server"),
        ("redis://h/first", "a database is a number from 0 on"),
        ("redis://h/1?db=2", "both"),
        ("redis://h?ssl_ca_certs=x", "without TLS"),
        ("rediss://h?ssl_cert_reqs=maybe", "required, optional or none"),
        ("redis+cluster://h/1", "no databases"),
        ("redis+sentinel://h:1", "SERVICE"),
        ("redis+sentinel://h:1/service/-1", "a database is a number from 0 on"),
        ("unix:///h.sock?db=jobs", "a database is a number from 0 on"),
        ("unix://host/path", "no host"),
        ("redis://h?durability=much", "none, aof"),
        ("redis://h?durability=wait:0:1", "none, aof"),
        ("redis://h?color=red", "unknown option"),
        ("redis://h?socket_timeout=0", "more than 0"),
    ],
)
def test_a_bad_address_or_option_is_refused_before_anything_is_asked(uri: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        fetch("x", uri)
