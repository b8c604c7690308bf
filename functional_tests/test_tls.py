"""The server is verified on every store: its authority, its host name, its dates; and no TLS is no answer."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from servers.base import HOST, RunningServer
from servers.certificates import make_impostors
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from servers.tls_front import TlsFront
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, fetch
from jobboard.backends import warn_once
from jobboard.testing import eventually

IMPOSTORS = ["elsewhere", "stranger", "expired"]
PASSWORD = "planted-password"

#: kazoo leaves the socket of a handshake that failed to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)


class Guarded(Protocol):
    """A server that can show any certificate."""

    def show(self, certificate: str) -> str:
        """Show this certificate from now on, ``none`` for no TLS at all; return a URI that ends in options."""
        ...

    @property
    def received(self) -> bytes:
        """What clients said to the server with the last certificate, as far as this is known."""
        ...

    def stop(self) -> None: ...


@pytest.fixture(scope="module")
def folder(certificates: Path) -> Path:
    make_impostors(certificates)
    return certificates


class Fronted:
    """A server behind a TLS front."""

    def __init__(self, server: RunningServer, uri: str, folder: Path) -> None:
        self._server: Any = server.start()
        self._uri = uri
        self._folder = folder
        self._front: TlsFront | None = None

    def show(self, certificate: str) -> str:
        self._close()
        port = self._server.port
        if certificate != "none":
            self._front = TlsFront(self._folder / f"{certificate}.pem", port).__enter__()
            port = self._front.port
        return self._uri.format(where=f"{HOST}:{port}", ca=self._folder / "ca.pem")

    @property
    def received(self) -> bytes:
        return b"" if self._front is None else self._front.received

    def _close(self) -> None:
        front, self._front = self._front, None
        if front is not None:
            front.__exit__(None, None, None)

    def stop(self) -> None:
        self._close()
        self._server.stop()


class OwnTls:
    """An SQL server, whose protocol begins without TLS: it reads its certificate again when told to."""

    received = b""

    def __init__(self, server: Any, owner: int | str, folder: Path, uri: str, reload: str, off: dict[str, str]) -> None:
        self._server, self._owner, self._folder = server, owner, folder
        self._uri, self._reload, self._off = uri, reload, off
        self._plain: Any = None
        self._put("server")
        server.start()

    def _put(self, certificate: str) -> None:
        for kind in ("pem", "key"):
            target = self._server.folder / f"tls.{kind}"
            shutil.copy(self._folder / f"{certificate}.{kind}", target)
            target.chmod(0o600)
            shutil.chown(target, self._owner)

    def show(self, certificate: str) -> str:
        server = self._server
        if certificate == "none":
            self._plain = self._plain or type(server)(self._off).start()
            server = self._plain
        else:
            self._put(certificate)
            with server.client() as client, client.cursor() as cursor:
                cursor.execute(self._reload)
        return self._uri.format(where=f"{HOST}:{server.port}", ca=self._folder / "ca.pem")

    def stop(self) -> None:
        self._server.stop()
        if self._plain is not None:
            self._plain.stop()


def _redis(folder: Path) -> Guarded:
    return Fronted(
        RedisServer({"requirepass": PASSWORD}), f"rediss://:{PASSWORD}@{{where}}/0?ssl_ca_certs={{ca}}", folder
    )


def _zookeeper(folder: Path) -> Guarded:
    return Fronted(ZooKeeperServer(), f"zookeeper://me:{PASSWORD}@{{where}}/tls?use_ssl=true&ca={{ca}}", folder)


def _etcd(folder: Path) -> Guarded:
    return Fronted(EtcdServer(), "etcds://{where}/tls?ca_cert={ca}", folder)


def _postgresql(folder: Path) -> Guarded:
    server = PostgresqlServer({"ssl": "on", "ssl_cert_file": "../tls.pem", "ssl_key_file": "../tls.key"})
    uri = f"postgresql://postgres:{PASSWORD}@{{where}}/jobs?sslrootcert={{ca}}"
    return OwnTls(server, os.geteuid() or "postgres", folder, uri, "SELECT pg_reload_conf()", {"ssl": "off"})


def _mariadb(folder: Path) -> Guarded:
    server = MariadbServer()
    server.command += [f"--ssl-cert={server.folder / 'tls.pem'}", f"--ssl-key={server.folder / 'tls.key'}"]
    return OwnTls(server, os.geteuid(), folder, "mysql://root@{where}/jobs?ssl_ca={ca}", "FLUSH SSL", {"skip-ssl": "1"})


@pytest.fixture(
    scope="module", params=[_redis, _zookeeper, _etcd, _postgresql, _mariadb], ids=lambda make: make.__name__
)
def guarded(request: pytest.FixtureRequest, folder: Path) -> Iterator[Guarded]:
    server: Guarded = request.param(folder)
    yield server
    server.stop()


def refusal(uri: str) -> str:
    """Return what a board says of a server that it does not trust; empty if it trusts it."""
    board = fetch("tls", uri)
    try:
        board.connect(2)
    except BoardUnavailable as error:
        return str(error)
    board.close()
    return ""


def test_a_server_that_shows_a_good_certificate_is_trusted(guarded: Guarded) -> None:
    uri = guarded.show("server")
    eventually(lambda: not refusal(uri))


@pytest.mark.parametrize("certificate", [*IMPOSTORS, "none"])
def test_an_impostor_is_refused_and_told_nothing(guarded: Guarded, certificate: str) -> None:
    uri = guarded.show(certificate)
    said = eventually(lambda: refusal(uri))
    assert PASSWORD not in said
    assert re.search("certificate|SSL|TLS|Timeout", said)
    assert guarded.received == b""


def test_only_a_plain_word_lets_an_impostor_pass_and_it_is_warned_of(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warn_once, "_warned", set())
    uri = guarded.show("elsewhere") + "&tls_unverified=true"
    if uri.startswith("etcds"):
        with pytest.raises(ValueError, match="tls_unverified"):
            fetch("tls", uri)
        return
    with caplog.at_level(logging.WARNING, "jobboard"):
        eventually(lambda: not refusal(uri))
    fetch("another", uri)
    assert caplog.text.count("verifies") == 1
