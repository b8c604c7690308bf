"""A login of an etcd board that ends while the board is in use: one thread renews it, as often as need be."""

from __future__ import annotations

import operator
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from servers.base import HOST
from servers.etcd_servers import EtcdServer
from servers.proxy import Proxy

from jobboard import BoardUnavailable, JobBoard, fetch
from jobboard.testing import eventually

USER, PASSWORD = "jobboard", "secret"
IS_LOGIN = b"/auth/authenticate"


class Guarded(EtcdServer):
    """A server with users."""

    def __enter__(self) -> Guarded:
        super().__enter__()
        for name in (USER, "root"):
            self.ask("/auth/user/add", {"name": name, "password": PASSWORD})
            self.ask("/auth/user/grant", {"user": name, "role": "root"})
        self.ask("/auth/enable")
        return self

    def ask_as_root(self, path: str, payload: dict[str, Any]) -> None:
        token = self.ask("/auth/authenticate", {"name": "root", "password": PASSWORD})["token"]
        reply = requests.post(f"{self.url}/v3{path}", json=payload, timeout=5, headers={"Authorization": token})
        reply.raise_for_status()

    def end_logins(self, password: str = PASSWORD) -> None:
        """Change the password, after which no login of this user holds any more."""
        self.ask_as_root("/auth/user/changepw", {"name": USER, "password": password})


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    with Guarded() as server:
        yield server


@pytest.fixture
def proxy(server: Guarded) -> Iterator[Proxy]:
    with Proxy((HOST, server.port)) as proxy:
        proxy.matters = lambda request: IS_LOGIN in request
        yield proxy


@pytest.fixture
def board(proxy: Proxy) -> Iterator[JobBoard]:
    with fetch("logins", uri_at(proxy.port), timeout=3.0) as board:
        board.post("resize")
        yield board


def uri_at(port: int) -> str:
    return f"etcd://{USER}:{PASSWORD}@{HOST}:{port}/tests"


def posts(board: JobBoard) -> bool:
    try:
        board.post("resize")
    except BoardUnavailable:
        return False
    return True


def test_a_renewal_that_failed_is_made_by_the_next_call(server: Guarded, proxy: Proxy, board: JobBoard) -> None:
    server.end_logins()
    proxy.cut("request", 10_000)
    for _ in range(3):
        with pytest.raises(BoardUnavailable, match="can't be reached"):
            board.stats()
    proxy.disarm()
    assert posts(board)


def test_a_password_that_is_refused_is_told_each_time_until_it_is_taken_again(server: Guarded, board: JobBoard) -> None:
    server.end_logins("another")
    for _ in range(3):
        with pytest.raises(BoardUnavailable, match="it refuses this user and password") as caught:
            board.stats()
        assert PASSWORD not in str(caught.value)
    server.end_logins(PASSWORD)
    assert posts(board)


def test_no_thread_is_refused_while_others_renew_the_login(server: Guarded, proxy: Proxy, board: JobBoard) -> None:
    logins: list[bytes] = []
    proxy.matters = lambda request: IS_LOGIN in request and bool(logins.append(request))
    posted, ended = [0, 0, 0], threading.Event()

    def work(number: int) -> None:
        while not ended.is_set():
            board.post("resize")
            posted[number] += 1

    with ThreadPoolExecutor(3) as threads:
        workers = [threads.submit(work, number) for number in range(3)]
        try:
            for _ in range(5):
                server.end_logins()
                wanted = [number + 2 for number in posted]
                eventually(
                    lambda wanted=wanted: all(map(operator.ge, posted, wanted)) or any(w.done() for w in workers)
                )  # type: ignore[misc]
        finally:
            ended.set()
    assert [worker.result() for worker in workers] == [None] * 3
    assert len(logins) == 5, "one thread logs in for all"


def test_a_login_that_is_older_than_a_change_of_the_users_is_renewed(tmp_path: Path) -> None:
    """A JSON web token names the revision of the users at which it was given."""
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    tokens = f"jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl=10m"
    with Guarded("--auth-token", tokens) as server, fetch("logins", uri_at(server.port), timeout=10.0) as board:
        board.post("resize")
        server.ask_as_root("/auth/role/add", {"name": "another"})
        assert posts(board)


def test_a_login_that_is_later_than_a_restored_copy_is_given_up(tmp_path: Path) -> None:
    """A simple token has the number of an entry of the log in it; the server is silent until it has that entry."""
    copy, received = tmp_path / "copy", list[str | None]()
    with Guarded() as server, fetch("logins", uri_at(server.port), timeout=1.0) as board:
        board.post("resize")
        data = server.folder / "data"
        server.kill()
        shutil.copytree(data, copy)
        server.start()
        for _ in range(20):
            board.post("resize")
        server.end_logins()
        assert posts(board)
        board.subscribe(lambda event: received.append(event.uuid), ["POSTED"])
        eventually(lambda: posts(board) and received)
        server.kill()
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        server.start()
        received.clear()
        eventually(lambda: posts(board))
        assert board.job_count == 2
        eventually(lambda: posts(board) and received)
