"""Access to a ZooKeeper board: digests, SASL, TLS, ACLs."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harnesses.fixtures import a_harness
from harnesses.working import work
from harnesses.zookeeper_harness import ZooKeeperHarness, path_of, plain_client
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl, make_digest_acl
from servers.base import HOST, free_port
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, JobBoard, JobState, fetch
from jobboard.backends import warn_once
from jobboard.testing import eventually

_USERS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_alice="secret" user_bob="secret";
};
"""


@pytest.fixture(scope="module")
def certificates(certificates: Path) -> Path:
    # What the server takes as one file.
    parts = [(certificates / name).read_text() for name in ("server.key", "server.pem")]
    (certificates / "both.pem").write_text("".join(parts))
    return certificates


class Guarded(ZooKeeperServer):
    """Knows users by SASL, and speaks TLS on ``tls_port`` with clients that have a certificate."""

    def __init__(self, certificates: Path) -> None:
        self.tls_port = free_port()
        users = certificates / "users.conf"
        users.write_text(_USERS)
        super().__init__(
            f"secureClientPort={self.tls_port}",
            f"secureClientPortAddress={HOST}",
            "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            f"ssl.keyStore.location={certificates / 'both.pem'}",
            f"ssl.trustStore.location={certificates / 'ca.pem'}",
            settings={
                "java.security.auth.login.config": str(users),
                "zookeeper.serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            },
        )


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[Guarded]:
    with Guarded(certificates) as server:
        yield server


harness = a_harness(ZooKeeperHarness)


# -- lines -------------------------------------------------------------------------------------------------------------


def test_a_board_works_over_tls_with_a_certificate(server: Guarded, certificates: Path) -> None:
    uri = f"zookeeper://{HOST}:{server.tls_port}/tls?use_ssl=true&ca={certificates / 'ca.pem'}"
    mine = f"&certfile={certificates / 'client.pem'}&keyfile={certificates / 'client.key'}"
    with fetch("tls", uri + mine) as board:
        work(board)
        backend: Any = board._backend
        # It knows that there is no other server, and does without the requests for that.
        assert backend._connection._mode[1] is False


@pytest.mark.parametrize("lacks", ["a certificate", "trust"])
def test_who_lacks_a_certificate_or_trust_gets_no_line(server: Guarded, certificates: Path, lacks: str) -> None:
    name = "ca" if lacks == "a certificate" else "client"
    uri = f"zookeeper://{HOST}:{server.tls_port}/tls?use_ssl=true&ca={certificates / name}.pem"
    if lacks == "trust":
        uri += f"&certfile={certificates / 'client.pem'}&keyfile={certificates / 'client.key'}"
    # A process of its own: kazoo leaves the sockets of handshakes that fail to the garbage collection.
    script = "import sys, jobboard; jobboard.fetch('tls', sys.argv[1]).connect(1)"
    said = subprocess.run([sys.executable, "-c", script, uri], capture_output=True, text=True, check=False)
    assert "BoardUnavailable: ZooKeeper at" in said.stderr
    assert "can't be reached" in said.stderr


def test_a_host_with_too_many_connections_is_told_so_by_name() -> None:
    """The server says nothing: it closes the connection."""
    with ZooKeeperServer("maxClientCnxns=2") as server:
        with fetch("first", server.uri), fetch("second", server.uri):
            third = fetch("third", server.uri)
            with pytest.raises(BoardUnavailable, match="more connections than maxClientCnxns allows"):
                third.connect(2)
        eventually(lambda: _connects(third), within=30)
        third.close()


def _connects(board: JobBoard) -> bool:
    with contextlib.suppress(BoardUnavailable):
        board.connect(2)
        return True
    return False


def as_user(name: str, port: int, password: str = "secret") -> JobBoard:
    options = {"mechanism": "DIGEST-MD5", "username": name, "password": password}
    return fetch("sasl", f"zookeeper://{HOST}:{port}/sasl", sasl_options=options)


def test_a_user_of_sasl_has_a_board_of_its_own(server: Guarded) -> None:
    """The ACL that ``creator`` stands for is that of the user that SASL names."""
    with as_user("alice", server.port) as board:
        work(board)
        with pytest.raises(BoardUnavailable, match="may not"):
            as_user("bob", server.port).connect(5)
        with pytest.raises(BoardUnavailable, match="it refuses this user and password"):
            as_user("alice", server.port, "wrong").connect(2)


def test_a_login_that_was_cut_off_is_tried_again(server: Guarded) -> None:
    """As a server that is stopped while its clients connect does; kazoo takes that for a wrong password, and ends."""
    is_login = 102
    with Proxy((HOST, server.port)) as proxy, as_user("alice", proxy.port) as board:
        proxy.matters = lambda request: request[8:12] == struct.pack(">i", is_login)
        proxy.cut("request")
        proxy.break_all()
        eventually(lambda: not proxy.armed)
        eventually(lambda: _posts(board))


def _posts(board: JobBoard) -> bool:
    with contextlib.suppress(BoardUnavailable):
        board.post("resize")
        return True
    return False


def test_who_logs_in_and_leaves_all_open_is_warned(
    server: Guarded, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that has run many tests remembers as much as it may, and warns of nothing more.
    monkeypatch.setattr(warn_once, "_warned", set())
    uri = f"zookeeper://alice:secret@{HOST}:{server.port}/open"
    for acl in ("creator", "world:anyone:r,auth::cdrwa"):
        with fetch("closed", f"{uri}-{acl[:5]}", acl=acl):
            assert "open to everybody" not in caplog.text
    for name in ("open", "open", "another"):
        with fetch(name, uri, acl="open"):
            pass
    warned = [record.message.partition(" logs in")[0] for record in caplog.records if "open to" in record.message]
    assert warned == ["board 'open'", "board 'another'"]
    with pytest.raises(ValueError), fetch("open", uri, acl="anything"):
        pass


# -- rights ------------------------------------------------------------------------------------------------------------


def test_an_acl_is_that_of_every_znode(server: Guarded) -> None:
    """As ``zkCli.sh`` takes it; kazoo makes the same of it."""
    wanted = make_digest_acl("alice", "secret", all=True)
    text = f"digest:{wanted.id.id}:cdrwa,world:anyone:r"
    uri = f"zookeeper://alice:secret@{HOST}:{server.port}/acl"
    with fetch("acl", uri, acl=text) as board:
        work(board)
        board.post("resize", key="k", details={"text": "x" * 5_000})
        paths = ["/acl/acl"]
        with plain_client(server.uri) as client:
            while paths:
                path = paths.pop()
                acl, _ = client.get_acls(path)
                assert {(str(row.id.scheme), row.perms) for row in acl} == {("digest", 31), ("world", 1)}, path
                paths += [f"{path}/{name}" for name in client.get_children(path)]


def test_a_lent_client_brings_its_rights_with_it(server: Guarded) -> None:
    acl = [make_digest_acl("alice", "secret", all=True)]
    lent = KazooClient(hosts=server.place, auth_data=[("digest", "alice:secret")], default_acl=acl)
    lent.start(15)
    with fetch("rights", "zookeeper:///lent", client=lent) as board:
        work(board)
        with plain_client(server.uri) as stranger, pytest.raises(NoAuthError):
            stranger.get_children("/lent/rights/jobs")
    lent.stop()
    lent.close()


def test_a_board_of_somebody_with_credentials_is_closed_to_others(server: ZooKeeperServer) -> None:
    uri = f"zookeeper://{{}}{HOST}:{server.port}/private"
    with fetch("mine", uri.format("alice:secret@")) as mine:
        job = mine.post("resize", details={"n": 1})
        for other in ("", "bob:secret@"):
            stranger = fetch("mine", uri.format(other))
            with pytest.raises(BoardUnavailable, match="may not"):
                stranger.connect(5)
        with fetch("mine", uri.format("alice:secret@")) as again:
            [claimed] = again.claim_next("alice")
            again.consume(claimed, "alice", "done")
        assert job.result == "done"


def test_who_may_only_read_is_told_so_and_changes_nothing(server: ZooKeeperServer) -> None:
    acl = [make_digest_acl("alice", "secret", all=True), *_readable()]
    uri = f"zookeeper://{{}}{HOST}:{server.port}/readable"
    with fetch("mine", uri.format("alice:secret@"), acl=acl) as mine:
        job = mine.post("resize")
        with pytest.raises(BoardUnavailable, match="may not"):
            fetch("mine", uri.format("")).connect(5)
        with plain_client(server.uri) as client:
            assert client.exists(path_of(mine, job.uuid).replace("/jobboard", "/readable"))
        assert (mine.job_count, mine.audit()) == (1, [])


def _readable() -> list[Any]:
    return [make_acl("world", "anyone", read=True)]


def test_a_znode_that_this_client_may_not_touch_is_named_as_refused(
    server: ZooKeeperServer, harness: ZooKeeperHarness
) -> None:
    board = harness.board()
    job = board.post("resize")
    with plain_client(server.uri) as client:
        client.set_acls(path_of(board, job.uuid), _readable())
    with pytest.raises(BoardUnavailable, match="may not"):
        board.claim(job, "alice")
    assert (board.get(job.uuid).record.state, board.connected) == (JobState.UNCLAIMED, True)
