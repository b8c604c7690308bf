"""A client of one board on Redis: open and closed, and its requests."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Backend
from jobboard.backends.redis.boards import names_of
from jobboard.backends.redis.checks import check_rights, check_server
from jobboard.backends.redis.faults import LOADING
from jobboard.backends.redis.keys import key_of
from jobboard.backends.redis.options import Durability
from jobboard.backends.redis.places import Place
from jobboard.backends.redis.scripts import Script, load_scripts
from jobboard.backends.redis.server import Argument, Server
from jobboard.backends.redis.wire import pack
from jobboard.backends.timelimit import is_time_over, time_limit
from jobboard.errors import BoardUnavailable, ReplyLost

logger = logging.getLogger("jobboard.redis")

_OPENING_PAUSE = 0.1

#: So many calls of a script go through a board of any size.
MOST_STEPS = 10_000_000

#: For how long a look at the whole board helps to settle what has become due, in seconds.
_SETTLING = 60.0


def endless(script: str) -> BoardUnavailable:
    return BoardUnavailable(f"{script} does not come to an end; `jobboard check --repair` may help")


class Client(Backend):
    """What the parts of the Redis backend stand on."""

    #: For how long one request may go on, in seconds: the way to the server, and its reply.
    patience: float

    def __init__(
        self,
        board: str,
        address: Address,
        *,
        durability: Durability | str = "none",
        allow_eviction: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(board, address)
        self.key = key_of(board)
        self._scripts: dict[str, Script] = load_scripts()
        self._durability = Durability.parse(durability)
        self._allow_eviction = allow_eviction
        self._is_open = False
        self._has_met_newer = False
        place = self._place_of(address, options)
        self.server = Server(place, self._durability, self.patience)

    def _place_of(self, address: Address, options: dict[str, Any]) -> Place:
        """Return where the server is; ``options`` are all that this class does not know itself."""
        raise NotImplementedError

    # -- connection ------------------------------------------------------------------------------------------------

    def boards(self, timeout: float) -> list[str]:
        self.server.open()
        try:
            with time_limit(timeout):
                return names_of(self.server, self.board, self.key)
        finally:
            self.server.close()

    def open(self, timeout: float) -> None:
        self.server.open()
        deadline = time.monotonic() + timeout
        try:
            with time_limit(timeout):
                while not self._is_prepared(deadline):
                    time.sleep(_OPENING_PAUSE)
        except BaseException:
            self.server.close()
            raise
        self._is_open = True

    def _is_prepared(self, deadline: float) -> bool:
        """Check the server and load the scripts; False if that may go better the next time, and there is time left.

        A server that was restarted answers, but refuses to work, until it has read its files.
        """
        try:
            self.server.send([("EXISTS", self.key)])
            check_server(self.server, self._durability, self._allow_eviction)
            self._load()
            command = self._durability.command
            needed = [] if command is None or self.server.writes_through else [command[0]]
            check_rights(self.server, self._look("rights", *needed)[1])
            return True
        except BoardUnavailable as error:
            if time.monotonic() < deadline and (isinstance(error, ReplyLost) or LOADING in str(error)):
                return False
            raise

    def _load(self) -> None:
        """Load what the server does not know; whatever it forgets later is loaded when it says so."""
        scripts = list(self._scripts.values())
        known = self.server.send([("SCRIPT", "EXISTS", *(script.sha for script in scripts))])[0]
        missing = [script for script, is_known in zip(scripts, known, strict=True) if not is_known]
        if missing:
            self.server.send([("SCRIPT", "LOAD", script.source) for script in missing])

    def close(self) -> None:
        self._is_open = False
        self.server.close()

    @property
    def connected(self) -> bool:
        return self._is_open and self.server.answers

    def now(self) -> float:
        return float(self._look("now")[1]) / 1e6

    # -- requests --------------------------------------------------------------------------------------------------

    def _change(self, script: str, *arguments: Argument) -> list[Any]:
        """Call a script that is a mutation."""
        reply = self.server.run(self._scripts[script], (self.key, *arguments), changes=True)
        if reply[0] == b"NEWER":
            raise BoardUnavailable(
                f"job {reply[1].decode()} was written by a newer jobboard, and nothing was done; upgrade this one"
            )
        return reply

    def _look(self, script: str, *arguments: Argument) -> list[Any]:
        """Call a script that looks, or changes what nobody relies on."""
        return self.server.run(self._scripts[script], (self.key, *arguments), changes=False)

    def _change_all(self, script: str, items: Sequence[Any]) -> list[Any]:
        """Call a script for a batch, and return the answer for each item."""
        if not items:
            return []
        answers: list[Any] = self._change(script, pack(items))[1]
        return answers

    def _leave(self, uuid: bytes | None) -> None:
        """Say once that there is what only a newer jobboard may touch."""
        if uuid is not None and not self._has_met_newer:
            self._has_met_newer = True
            logger.warning(
                "board %s: job %s was written by a newer jobboard; it and its like are left alone. Upgrade this one",
                self.board,
                uuid.decode(),
            )

    def _until_settled(self, script: str, *arguments: Argument, changes: bool = False) -> list[Any]:
        """Call a script that works on the whole board: each call settles some of what is due, the last one works."""
        deadline = time.monotonic() + _SETTLING
        while True:
            reply = self.server.run(self._scripts[script], (self.key, *arguments), changes=changes)
            if reply[0] != b"MORE":
                return reply
            if time.monotonic() > deadline or is_time_over():
                raise BoardUnavailable("more jobs become due than the board can take back")
