"""Names and passwords of the console: who is let in, what waits and is logged, and of whom the tries are counted."""

from __future__ import annotations

import anyio
import httpx
import pytest
from helpers.console import Asking
from helpers.memory_board import board

from jobboard import JobBoard
from jobboard.cli.connections import Connections
from jobboard.cli.console_server import config_of
from jobboard.console import app
from jobboard.console.basic_auth import MAX_TRIES, BasicAuth, read_users

__all__ = ["board"]


def test_names_and_passwords(board: JobBoard) -> None:
    users = read_users("# who\n\nann:s3:cret \nbob:ä")
    ask = Asking(BasicAuth(app(board), users, delay=0))
    asked = ask.get("/")
    assert (asked.status_code, asked.headers["WWW-Authenticate"][:5]) == (401, "Basic")
    tries = [("ann", "s3:cret"), ("bob", "ä"), ("ann", "wrong"), ("eve", "s3:cret"), ("eve", "")]
    assert [ask.get("/", auth=httpx.BasicAuth(*pair)).status_code for pair in tries] == [200, 200, 401, 401, 401]
    for header in ("Basic", "Basic !!", "Basic /w==", "Bearer x", "Basic YW5u"):
        assert ask.get("/", headers={"Authorization": header}).status_code == 401


def test_a_wrong_password_is_logged_without_what_was_typed(board: JobBoard, caplog: pytest.LogCaptureFixture) -> None:
    ask = Asking(BasicAuth(app(board), {"ann": "s3cret"}, delay=0))
    for pair in (("ann", "typed1"), ("typed2", "typed3"), ("ann", "s3cret"), ("", "")):
        ask.get("/", auth=httpx.BasicAuth(*pair))
    lines = [record.getMessage() for record in caplog.records if record.name == "jobboard.console"]
    assert lines == [
        "wrong password of ann from 127.0.0.1",
        "wrong password of an unknown user from 127.0.0.1",
        "wrong password of an unknown user from 127.0.0.1",
    ]
    ask.get("/")
    assert len(caplog.records) == len(lines)


def test_a_wrong_password_waits_and_nobody_else_does(board: JobBoard) -> None:
    """A limited number of one peer and one user wait, and further ones are refused; others get in meanwhile."""
    auth = BasicAuth(app(board, hosts=["*"]), {"ann": "right", "bob": "right", "eve": "right"}, delay=3600)
    answers: list[int] = []

    async def ask(user: str, password: str, peer: str = "10.0.0.1") -> int:
        transport = httpx.ASGITransport(auth, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
            answer = await web.get("/static/console.css", auth=(user, password))
        answers.append(answer.status_code)
        return answer.status_code

    async def main() -> None:
        async with anyio.create_task_group() as tries:
            for user in ("ann", "bob", "unknown", "not known"):
                for number in range(MAX_TRIES // 2):
                    tries.start_soon(ask, user, f"wrong {number}")
            await anyio.wait_all_tasks_blocked()
            assert answers == []
            assert [await ask("ann", "right"), await ask("bob", "right"), await ask("eve", "right")] == [200] * 3
            for number in range(MAX_TRIES // 2):
                tries.start_soon(ask, "ann", f"wrong {number}")
            await anyio.wait_all_tasks_blocked()
            # Otherwise the first answer to many guesses would show the right one, and all others at once as wrong.
            assert [await ask("ann", "right"), await ask("ann", "wrong"), await ask("nobody", "x")] == [429] * 3
            others = [("bob", "10.0.0.1"), ("eve", "10.0.0.1"), ("ann", "10.0.0.2"), ("ann", "10.0.0.3")]
            assert [await ask(user, "right", peer) for user, peer in others] == [200] * 4
            tries.cancel_scope.cancel()
        assert not auth._waiting
        assert await ask("ann", "right") == 200

    anyio.run(main)
    assert 401 not in answers


def test_behind_a_proxy_the_address_is_the_one_that_the_proxy_has_added(
    board: JobBoard, caplog: pytest.LogCaptureFixture
) -> None:
    """What stands before it in X-Forwarded-For is the client's to write; and one client may have a /64."""
    auth = BasicAuth(app(board), {"ann": "right"}, delay=3600)
    config = config_of(auth, Connections(500, 500), is_behind_proxy=True)
    config.load()

    async def ask(password: str, *forwarded: str) -> int:
        transport = httpx.ASGITransport(config.loaded_app)
        headers = [("X-Forwarded-For", each) for each in forwarded]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as web:
            return (await web.get("/static/console.css", auth=("ann", password))).status_code

    async def main() -> None:
        async with anyio.create_task_group() as tries:
            for number in range(MAX_TRIES):
                tries.start_soon(ask, "wrong", f"10.0.0.{number}, 203.0.113.7:{number + 1}")
                tries.start_soon(ask, "wrong", f"10.0.1.{number}", f"2001:db8:0:1::{number}")
            await anyio.wait_all_tasks_blocked()
            assert [await ask("right", "10.0.2.1, 203.0.113.7"), await ask("right", "2001:db8:0:1::ff")] == [429] * 2
            others = ["203.0.113.7, 203.0.113.8", "2001:db8:0:2::1", "unknown", ""]
            assert [await ask("right", each) for each in others] == [200] * 4
            tries.cancel_scope.cancel()

    anyio.run(main)
    logged = {record.getMessage() for record in caplog.records}
    assert "wrong password of ann from 203.0.113.7" in logged
    assert "wrong password of ann from 2001:db8:0:1::3" in logged


def test_a_wrong_password_is_answered_after_its_delay(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("jobboard.console.basic_auth.anyio.sleep", sleep)
    ask = Asking(BasicAuth(app(board), {"ann": "right"}))
    for password, status in (("wrong", 401), ("right", 200), ("wrong", 401), ("wrong", 401)):
        assert ask.get("/", auth=httpx.BasicAuth("ann", password)).status_code == status
    assert ask.get("/").status_code == 401
    assert slept == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("text", ["", "# none", "ann", ":x", "ann:"])
def test_files_of_passwords_without_any_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME:PASSWORD"):
        read_users(text)
