"""What a nemesis may do to a store, and to the lines to it."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from servers.base import RunningServer
from servers.proxy import Proxy

from .nemesis import Disturbance

#: The faults of the lines that most processes share; conductors have lines of their own.
LINES = {
    "cut the lines", "drop replies", "drop requests", "swallow requests", "silence the lines", "shut the lines",
}  # fmt: skip
#: The faults that are one job's: another connection keeps its row locked.
LOCKED_ROWS = {"lock a row of a conductor", "lock a row of a worker"}
#: For how many seconds a row is locked at least: longer than a store waits for a lock, and than ends may take.
_LOCKED = 24.0
#: For how many seconds one looks for a claimed job to lock.
_LOOK = 8.0
#: By how much replies are held longer than a claim lasts, at least.
_LONGER = 1.05
#: For how many seconds a file is locked at least: longer than SQLite waits.
_FILE_LOCKED = 4.5


def of_lines(proxies: Sequence[Proxy]) -> dict[str, Disturbance]:
    """What can be done to the lines: to one of them, or to all."""

    def on_some(act: Callable[[Proxy], object], end: Callable[[Proxy], object] | None = None) -> Disturbance:
        def disturb(seconds: float, pick: float, over: threading.Event) -> None:
            number = int(pick * (len(proxies) + 1))
            chosen = proxies[number : number + 1] or proxies
            for proxy in chosen:
                act(proxy)
            if end is not None:
                over.wait(seconds)
                for proxy in chosen:
                    end(proxy)

        return disturb

    return {
        "cut the lines": on_some(Proxy.break_all),
        "drop replies": on_some(lambda proxy: proxy.cut("reply", 3), Proxy.disarm),
        "drop requests": on_some(lambda proxy: proxy.cut("request", 3), Proxy.disarm),
        "swallow requests": on_some(lambda proxy: proxy.cut("both", 2), _break_what_is_swallowed),
        "silence the lines": on_some(Proxy.silence, Proxy.speak),
        "shut the lines": on_some(Proxy.shut, Proxy.open_again),
    }


def _break_what_is_swallowed(proxy: Proxy) -> None:
    """A client that waits for an answer on one of these lines need not wait for its whole timeout."""
    proxy.disarm()
    proxy.break_all()


def of_servers(choose: Callable[[float], RunningServer]) -> dict[str, Disturbance]:
    """What can be done to a server: the one that is chosen, such as the leader."""

    def restart(seconds: float, pick: float, over: threading.Event) -> None:
        server = choose(pick)
        server.kill()
        over.wait(seconds)
        server.start()

    def freeze(seconds: float, pick: float, over: threading.Event) -> None:
        server = choose(pick)
        server.freeze()
        over.wait(seconds)
        server.thaw()

    return {"restart a server": restart, "freeze a server": freeze}


def of_replies(lines: Mapping[str, tuple[Proxy, float]]) -> dict[str, Disturbance]:
    """Hold a server's answers on the line of one process for longer than its claims last, and then deliver them.

    :param lines: by the beginning of the process's name.
    """

    def hold_on(label: str, proxy: Proxy, expiry: float) -> Disturbance:
        def hold(seconds: float, _pick: float, over: threading.Event) -> str:
            proxy.silence()
            over.wait(_LONGER * expiry + seconds)
            proxy.speak()
            return label

        return hold

    return {f"hold replies of {label}": hold_on(label, *line) for label, line in lines.items()}


def of_row(
    claimed: Callable[[], Sequence[str]], lock: Callable[[str], contextlib.AbstractContextManager[Any]]
) -> Disturbance:
    """Keep the row of a claimed job locked.

    :param claimed: returns the uuids of jobs that are claimed now.
    :param lock: locks the row of this job for the time of a ``with`` block.
    """

    def disturb(seconds: float, pick: float, over: threading.Event) -> str:
        for _ in range(int(_LOOK / 0.2)):
            if uuids := claimed():
                uuid = uuids[int(pick * len(uuids))]
                with lock(uuid):
                    over.wait(_LOCKED + seconds)
                return uuid
            if over.wait(0.2):
                break
        return "nobody"

    return disturb


@contextlib.contextmanager
def row_of_a_server(server: Any, uuid: str) -> Iterator[None]:
    with server.client() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT board FROM jobboard_jobs WHERE uuid = %s", (uuid,))
        board = cursor.fetchone()
        cursor.execute("BEGIN")
        # By the index: on MariaDB a search locks all that it reads.
        cursor.execute(
            "SELECT 1 FROM jobboard_jobs WHERE board = %s AND uuid = %s FOR UPDATE", (board[0] if board else 0, uuid)
        )
        try:
            yield
        finally:
            # The server may have been restarted.
            with contextlib.suppress(Exception):
                cursor.execute("ROLLBACK")


def of_file(path: Path) -> dict[str, Disturbance]:
    """Keep an SQLite file locked against writers."""

    def disturb(seconds: float, _pick: float, over: threading.Event) -> None:
        with contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            over.wait(_FILE_LOCKED + seconds)
            connection.execute("ROLLBACK")

    return {"lock the file": disturb}


def one_at_a_time(faults: dict[str, Disturbance], until_whole: Callable[[], object]) -> dict[str, Disturbance]:
    """Let an ensemble come together again before the next fault; it is no fault of the board's if most are away."""

    def then_wait(disturb: Disturbance) -> Disturbance:
        def both(seconds: float, pick: float, over: threading.Event) -> str | None:
            whom = disturb(seconds, pick, over)
            until_whole()
            return whom

        return both

    return {kind: then_wait(disturb) for kind, disturb in faults.items()}
