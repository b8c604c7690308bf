"""Requests to the server: commands, and the board's scripts, which are called by their hashes."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from redis import exceptions

from jobboard.backends.redis.codec import pack
from jobboard.backends.redis.connection import Argument, Command
from jobboard.backends.redis.errors import lacks_replicas, refused
from jobboard.backends.redis.options import Durability
from jobboard.backends.redis.pool import ConnectionPool
from jobboard.backends.redis.scripts import Script, load_scripts
from jobboard.backends.timelimit import is_time_over, time_limit
from jobboard.errors import BoardUnavailable, ReplyLost

logger = logging.getLogger("jobboard.redis")

#: Replies by which a server says that it did nothing, and that another one will, or the same one soon.
_ELSEWHERE = (
    exceptions.AskError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
    exceptions.ReadOnlyError,
    exceptions.BusyLoadingError,
)
_MAX_TRIES, _FIRST_PAUSE, _MAX_PAUSE = 8, 0.02, 0.4

#: How often a script that works on a part of the board is called at most, for a board of any size.
MAX_STEPS = 10_000_000

#: For how long calls for the whole board expire and promote jobs, in seconds, before they give up.
_EXPIRY_TIMEOUT = 60.0


class RedisClient:
    """Sends each request once, and again only if the server has said that it did nothing.

    :param key: what all keys of the board begin with.
    :param timeout: seconds for one request, with finding the server, connecting and redirections; what the durability
        waits for comes on top.
    """

    def __init__(self, pool: ConnectionPool, board: str, key: str, durability: Durability, timeout: float) -> None:
        self.key = key
        self._pool = pool
        self._board = board
        self._durability = durability
        self._wait = durability.command
        self._timeout = timeout
        self._scripts = load_scripts()
        self._has_met_newer = False
        #: The server has every change on its disk before it replies, and need not be asked to wait.
        self.writes_through = False

    @property
    def where(self) -> str:
        """The server, as errors name it."""
        return f"Redis at {self._pool.topology}"

    @property
    def waits_for_copies(self) -> bool:
        """Whether a change must be on other servers or on a disk before anybody relies on it."""
        return self._wait is not None and not self.writes_through

    # -- scripts ---------------------------------------------------------------------------------------------------

    def change(self, script: str, *arguments: Argument) -> list[Any]:
        """Call a script that is a mutation, and wait for what the durability asks for."""
        reply = self._run(script, arguments, changes=True)
        if reply[0] == b"NEWER":
            raise BoardUnavailable(
                f"job {reply[1].decode()} was written by a newer jobboard, and nothing was done; upgrade this one"
            )
        return reply

    def change_all(self, script: str, items: Sequence[Any], *more: Argument) -> list[Any]:
        """Call a script for a batch, with further arguments, and return the answer for each item."""
        if not items:
            return []
        answers: list[Any] = self.change(script, pack(items), *more)[1]
        return answers

    def read(self, script: str, *arguments: Argument) -> list[Any]:
        """Call a script that reads, or changes what nobody relies on."""
        return self._run(script, arguments, changes=False)

    def call_until_current(self, script: str, *arguments: Argument, changes: bool = False) -> list[Any]:
        """Call a script that needs the whole board expired and promoted, until nothing more is due."""
        deadline = time.monotonic() + _EXPIRY_TIMEOUT
        while True:
            reply = self._run(script, arguments, changes=changes)
            if reply[0] != b"MORE":
                return reply
            if time.monotonic() > deadline or is_time_over():
                raise BoardUnavailable("jobs become due faster than the board can expire and promote them")

    def warn_of_newer(self, uuid: bytes | None) -> None:
        """Log once that a job was skipped because only a newer jobboard may change it."""
        if uuid is not None and not self._has_met_newer:
            self._has_met_newer = True
            logger.warning(
                "board %s: job %s was written by a newer jobboard; it and its like are left alone. Upgrade this one",
                self._board,
                uuid.decode(),
            )

    def load(self) -> None:
        """Load the scripts that the server does not know; what it forgets later is loaded when it says so."""
        scripts = list(self._scripts.values())
        known = self.send([("SCRIPT", "EXISTS", *(script.sha for script in scripts))])[0]
        missing = [script for script, is_known in zip(scripts, known, strict=True) if not is_known]
        if missing:
            self.send([("SCRIPT", "LOAD", script.source) for script in missing])

    def _run(self, name: str, arguments: Sequence[Argument], *, changes: bool) -> list[Any]:
        script = self._scripts[name]
        wait = self._wait if changes and not self.writes_through else None
        if wait is None:
            reply: list[Any] = self.send([("EVALSHA", script.sha, "1", self.key, *arguments)], script)[0]
            return reply
        request = ("EVALSHA", script.sha, "2", self.key, f"{self.key}:waited", *arguments)
        reply, reached = self.send([request, wait], script, self._durability.milliseconds / 1000)
        if not self._durability.is_reached(reached):
            self._search_anew()
            raise ReplyLost(f"{self.where}: {wait[0]} was not reached within {wait[-1]} ms: {reached!r}")
        return reply

    # -- requests --------------------------------------------------------------------------------------------------

    def send(self, commands: Sequence[Command], script: Script | None = None, more: float = 0.0) -> list[Any]:
        """Send commands in one round trip, and return all replies.

        :param script: what the first command calls; it is loaded if the server does not know it.
        :param more: how many seconds longer than usual the server may take.
        :raises BoardUnavailable: nothing was done.
        :raises ReplyLost: the commands may have been carried out.
        """
        with time_limit(self._timeout + more):
            pause = _FIRST_PAUSE
            for left in reversed(range(_MAX_TRIES)):
                replies = self._try(commands, script)
                for fault in replies:
                    if isinstance(fault, Exception):
                        break
                else:
                    return replies
                if not left or is_time_over() or not isinstance(fault, _ELSEWHERE) or replies[0] is not fault:
                    if lacks_replicas(fault):
                        self._search_anew()
                    raise self._refusal(fault, replies)
                self._redirect(fault)
                time.sleep(0 if isinstance(fault, exceptions.MovedError) else pause)
                pause = min(2 * pause, _MAX_PAUSE)
            raise AssertionError("the last try returns or raises")

    def _try(self, commands: Sequence[Command], script: Script | None) -> list[Any]:
        pool = self._pool
        connection, generation = pool.take()
        try:
            replies = pool.exchange(connection, commands)
            if script is not None and isinstance(replies[0], exceptions.NoScriptError):
                pool.exchange(connection, [("SCRIPT", "LOAD", script.source)])
                replies = pool.exchange(connection, commands)
        except BaseException:
            pool.drop(connection, generation)
            raise
        pool.give(connection, generation)
        return replies

    def _refusal(self, fault: Exception, replies: list[Any]) -> BoardUnavailable:
        """If the first reply is fine, the mutation took effect, whatever the server says about its copies."""
        error = refused(str(self._pool.topology), fault)
        return error if replies[0] is fault else ReplyLost(str(error))

    def _redirect(self, fault: Exception) -> None:
        """Go where a redirection leads; while a slot is moving, search again."""
        if isinstance(fault, exceptions.MovedError):
            self._pool.discard_idle()
            self._pool.topology.moved(fault.host, fault.port)
        else:
            self._search_anew()

    def _search_anew(self) -> None:
        """Let the next request find the server.

        A primary that its Sentinels have replaced learns of it ten seconds later, and has no replicas until then.
        """
        self._pool.discard_idle()
        self._pool.topology.forget()


def endless(script: str) -> BoardUnavailable:
    """A script that works on a part of the board at a time does not get to the end."""
    return BoardUnavailable(f"{script} does not come to an end; `jobboard check --repair` may help")
