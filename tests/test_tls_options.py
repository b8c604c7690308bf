"""Options of TLS that would let an impostor pass are refused before anything is asked."""

from __future__ import annotations

import socket
import ssl
import threading
from typing import Any

import pytest

from jobboard import BoardUnavailable, fetch


@pytest.mark.parametrize(
    "uri",
    [
        "rediss://h?ssl_cert_reqs=none",
        "rediss://h?ssl_cert_reqs=optional",
        "rediss://h?ssl_check_hostname=false",
        "redis+sentinel://h/service?ssl=true&ssl_check_hostname=false",
        "redis+cluster://h?ssl=true&ssl_cert_reqs=none",
        "zookeeper://h?use_ssl=true&verify_certs=false",
        "zookeeper://h?use_ssl=true&check_hostname=false",
        "mysql://h/d?ssl_verify_cert=false",
        "mysql://h/d?ssl_verify_cert=true&ssl_verify_identity=false",
        "postgresql://h/d?sslmode=require",
        "postgresql://h/d?sslmode=verify-ca&sslrootcert=ca.pem",
    ],
)
def test_what_lets_an_impostor_pass_needs_a_plain_word(uri: str) -> None:
    with pytest.raises(ValueError, match="tls_unverified=true"):
        fetch("x", uri)
    fetch("x", f"{uri}&tls_unverified=true")


@pytest.mark.parametrize(
    ("uri", "fault"),
    [
        ("redis://h?tls_unverified=true", "without TLS"),
        ("zookeeper://h?ca=ca.pem", "use_ssl=true"),
        ("zookeeper://h?tls_unverified=true", "use_ssl=true"),
        ("postgresql://h/d?sslmode=disable&sslrootcert=ca.pem", "there is no TLS"),
        ("mysql://h/d?ssl_ca=/missing.pem", "can't be read"),
        ("mysql://h/d?ssl_disabled=true&ssl_ca=ca.pem", "there is no TLS"),
    ],
)
def test_options_of_tls_where_there_is_none_are_refused(uri: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        fetch("x", uri)


# -- nothing is said of TLS --------------------------------------------------------------------------------------------

#: A server that has no TLS and asks for the password as it is.
_NO_TLS, _TELL_ME = b"N", b"R\0\0\0\x08\0\0\0\x03"


class Impostor:
    """Takes one connection of libpq's, and hears what it says."""

    def __init__(self) -> None:
        self.received = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(10)
            for answer in (_NO_TLS, _TELL_ME, b""):
                said = connection.recv(4096)
                self.received += said
                if not said:
                    return
                connection.sendall(answer)

    def stop(self) -> bytes:
        self._thread.join(20)
        self._listener.close()
        return self.received


@pytest.fixture
def impostor(monkeypatch: pytest.MonkeyPatch) -> Any:
    impostor = Impostor()
    for name in ("PGSSLMODE", "PGHOST", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    # Another server that answers for the host's name.
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
    monkeypatch.setenv("PGGSSENCMODE", "disable")
    return impostor


@pytest.mark.parametrize("service", ["", "service"])
def test_the_password_does_not_reach_whoever_answers_for_a_postgresql_server(
    impostor: Impostor, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    place = f"db.example.org:{impostor.port}"
    if service:
        (tmp_path / "services").write_text(f"[shop]\nhost=db.example.org\nport={impostor.port}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        monkeypatch.setenv("PGSERVICE", "shop")
    with pytest.raises(BoardUnavailable, match=r"sslrootcert=|sslmode=disable"):
        fetch("x", f"postgresql://me:s3cret@{'' if service else place}/shop").connect(5.0)
    # libpq may know by itself that it has no authority to trust, and ask nobody.
    socket.create_connection(("127.0.0.1", impostor.port)).close()
    assert b"s3cret" not in impostor.stop()


def test_a_server_without_tls_on_another_host_is_taken_by_a_plain_word_only(impostor: Impostor) -> None:
    with pytest.raises(BoardUnavailable):
        fetch("x", f"postgresql://me:s3cret@db.example.org:{impostor.port}/shop?sslmode=disable").connect(5.0)
    # This impostor takes the first packet for a question about TLS.
    assert b"shop" in impostor.stop()


@pytest.mark.parametrize("mode", ["allow", "prefer", "require", "verify-ca"])
def test_an_environment_that_lets_an_impostor_pass_is_refused(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", mode)
    with pytest.raises(ValueError, match=f"PGSSLMODE={mode}.*tls_unverified=true"):
        fetch("x", "postgresql://db.example.org/shop")
    fetch("x", "postgresql://localhost/shop")
    fetch("x", "postgresql://db.example.org/shop?sslmode=disable")


@pytest.mark.parametrize(
    ("place", "mode"),
    [
        ("localhost", None),
        ("127.0.0.1", None),
        ("127.8.0.1", None),
        ("[::1]", None),
        ("", None),
        ("localhost,127.0.0.1", None),
        ("db", "verify-full"),
        ("10.0.0.7", "verify-full"),
        ("localhost,db", "verify-full"),
        ("localhost.example.org", "verify-full"),
    ],
)
def test_what_postgresql_verifies_where_nothing_is_said(
    place: str, mode: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGSSLMODE", "PGHOST", "PGSERVICE", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)
    board: Any = fetch("x", f"postgresql://{place}/shop")
    assert board._backend._parameters.get("sslmode") == mode


@pytest.mark.parametrize(("host", "mode"), [("db", "verify-full"), ("/run/postgresql", None), ("localhost", None)])
def test_the_host_of_the_environment_counts_too(host: str, mode: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    monkeypatch.setenv("PGHOST", host)
    board: Any = fetch("x", "postgresql:///shop")
    assert board._backend._parameters.get("sslmode") == mode


@pytest.mark.parametrize(
    ("place", "is_verified"),
    [
        ("localhost/d", False),
        ("127.0.0.1/d", False),
        ("db/d?unix_socket=/run/mysqld.sock", False),
        ("db/d", True),
        ("10.0.0.7/d", True),
        ("db/d?ssl_verify_cert=true", True),
        ("db/d?ssl_disabled=true", False),
    ],
)
def test_what_mysql_verifies_where_nothing_is_said(place: str, is_verified: bool) -> None:
    board: Any = fetch("x", f"mysql://{place}")
    context = board._backend._nodes[0].get("ssl")
    assert (context is not None) == is_verified
    if is_verified:
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
