"""Access to an etcd board: TLS with certificates on both sides, and users with few rights."""

from __future__ import annotations

import base64
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.working import work
from servers.base import HOST
from servers.etcd_servers import EtcdServer

from jobboard import BoardUnavailable, fetch
from jobboard.backends.etcd import EtcdBackend
from jobboard.testing import eventually

USER, PASSWORD = "jobboard", "secret of the tests"
PREFIX = "tests"


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[EtcdServer]:
    """A server that wants a client's certificate, and a user."""
    options = [
        *("--cert-file", f"{certificates}/server.pem", "--key-file", f"{certificates}/server.key"),
        *("--trusted-ca-file", f"{certificates}/ca.pem", "--client-cert-auth"),
    ]
    cert = (f"{certificates}/nameless.pem", f"{certificates}/nameless.key")
    with EtcdServer(*options, scheme="https", verify=f"{certificates}/ca.pem", cert=cert) as server:
        allow_least_rights(server)
        yield server


def allow_least_rights(server: EtcdServer) -> None:
    """Make a user who may read and write the keys of the boards below one prefix, as the documentation has it."""
    start, end = (base64.b64encode(key).decode() for key in (b"/tests/", b"/tests0"))
    server.ask("/auth/role/add", {"name": USER})
    permission = {"permType": "READWRITE", "key": start, "range_end": end}
    server.ask("/auth/role/grant", {"name": USER, "perm": permission})
    for name, role in ((USER, USER), ("root", "root")):
        server.ask("/auth/user/add", {"name": name, "password": PASSWORD})
        server.ask("/auth/user/grant", {"user": name, "role": role})
    server.ask("/auth/enable")


def uri_of(
    server: EtcdServer, folder: Path, user: str | None = USER, password: str = PASSWORD, cert: str = "nameless"
) -> str:
    files = f"ca_cert={folder}/ca.pem&cert_cert={folder}/{cert}.pem&cert_key={folder}/{cert}.key"
    login = f"{user}:{password.replace(' ', '%20')}@" if user else ""
    return f"etcds://{login}{HOST}:{server.port}/{PREFIX}?{files}"


def test_a_board_works_over_tls_with_certificates_and_the_least_rights(server: EtcdServer, certificates: Path) -> None:
    with fetch("secret", uri_of(server, certificates)) as board:
        work(board)


def test_a_login_that_ran_out_is_renewed(server: EtcdServer, certificates: Path) -> None:
    board = fetch("renewed", uri_of(server, certificates))
    with board:
        backend = board._backend
        assert isinstance(backend, EtcdBackend)
        job = board.post("resize")
        _forget_login(backend)
        board.consume(board.claim_next("alice")[0], "alice")
        _forget_login(backend)
        received: list[str] = []
        board.subscribe(lambda event: received.append(event.uuid or ""))
        another = board.post("resize")
        eventually(lambda: received == [another.uuid])
        assert board.get(job.uuid).record.owner == "alice"


def _forget_login(backend: EtcdBackend) -> None:
    """Make the login one that the server does not know, as after some minutes."""
    backend.http.login.token = "one that the server has forgotten"


def test_a_certificate_with_a_name_beside_users_is_told(server: EtcdServer, certificates: Path) -> None:
    with pytest.raises(BoardUnavailable, match="no common name"):
        fetch("secret", uri_of(server, certificates, cert="client")).connect()


def test_a_client_without_a_certificate_is_refused(server: EtcdServer, certificates: Path) -> None:
    board = fetch("secret", f"etcds://{HOST}:{server.port}/{PREFIX}?ca_cert={certificates}/ca.pem")
    with pytest.raises(BoardUnavailable, match="can't be reached"):
        board.connect()


def test_a_server_of_an_unknown_authority_is_refused(server: EtcdServer, certificates: Path) -> None:
    files = f"cert_cert={certificates}/client.pem&cert_key={certificates}/client.key"
    with pytest.raises(BoardUnavailable, match="can't be reached"):
        fetch("secret", f"etcds://{USER}:x@{HOST}:{server.port}/{PREFIX}?{files}").connect()


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD)])
def test_a_wrong_password_is_one_clear_line(server: EtcdServer, certificates: Path, user: str, password: str) -> None:
    with pytest.raises(BoardUnavailable, match="it refuses this user and password") as caught:
        fetch("secret", uri_of(server, certificates, user, password)).connect()
    assert password not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_user_is_told(server: EtcdServer, certificates: Path) -> None:
    with pytest.raises(BoardUnavailable, match="it wants a user"):
        fetch("secret", uri_of(server, certificates, None)).connect()


def test_a_missing_right_is_told(server: EtcdServer, certificates: Path) -> None:
    uri = uri_of(server, certificates).replace(f"/{PREFIX}?", "/others?")
    with pytest.raises(BoardUnavailable, match="this user lacks a right"):
        fetch("secret", uri).connect()


def test_a_user_that_the_server_does_not_know_of_is_told() -> None:
    with EtcdServer() as server, pytest.raises(BoardUnavailable, match="it knows no users"):
        fetch("secret", server.uri.replace("://", f"://{USER}:x@")).connect()


# -- addresses ---------------------------------------------------------------------------------------------------------


def test_the_next_endpoint_is_asked_when_one_is_away() -> None:
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        away = nobody.getsockname()[1]
        with EtcdServer() as server, EtcdHarness(f"etcd://{HOST}:{away},{HOST}:{server.port}/{PREFIX}") as harness:
            work(harness.board())


def test_a_path_of_the_api_may_be_given() -> None:
    with EtcdServer() as server:
        with fetch("paths", server.uri, api_path="/v3/") as board:
            work(board)
        with pytest.raises(BoardUnavailable):
            fetch("paths", server.uri, api_path="/v9/").connect(timeout=1)


def test_boards_of_two_prefixes_share_nothing() -> None:
    with EtcdServer() as server:
        one, other = fetch("a", server.uri), fetch("a", server.uri + "/b")
        with one, other:
            one.post("resize")
            assert (one.job_count, other.job_count) == (1, 0)


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with EtcdServer() as server:
        monkeypatch.setitem(os.environ, "http_proxy", f"http://{HOST}:1")
        with fetch("direct", server.uri) as board:
            work(board)


def test_a_web_page_is_no_answer_of_etcd() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(404, explain="nothing here" * 1000)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer((HOST, 0), Page) as site:
        threading.Thread(target=site.serve_forever).start()
        try:
            with pytest.raises(BoardUnavailable, match="etcd refuses: is there an etcd at this address") as caught:
                fetch("board", f"etcd://{HOST}:{site.server_port}").connect()
            assert len(str(caught.value)) < 500
        finally:
            site.shutdown()
