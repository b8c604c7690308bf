"""A client of one board on ZooKeeper: open and closed, and what its parts work with."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from jobboard.backends.address import Address
from jobboard.backends.base import Backend
from jobboard.backends.timelimit import time_limit
from jobboard.backends.zookeeper.clock import Clock
from jobboard.backends.zookeeper.editing import Editor
from jobboard.backends.zookeeper.engine import Engine
from jobboard.backends.zookeeper.faults import refused, translated
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.line import Line, acl_of
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.options import TLS_OPTIONS, access, tls_of
from jobboard.backends.zookeeper.requests import NO_NODE, NODE_EXISTS, Multi, MultiRead, fault_in
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.tracker import Tracker, names_in
from jobboard.errors import BoardUnavailable, ReplyLost

logger = logging.getLogger("jobboard.zookeeper")

#: The one right that opens nothing to change.
_READ = 1
_PORT = 2181
_SETTLE_AT_ONCE = 200


class Client(Backend):
    """What the parts of the ZooKeeper backend stand on."""

    def __init__(
        self,
        board: str,
        address: Address,
        *,
        client: KazooClient | None = None,
        acl: Sequence[Any] | None = None,
        session_timeout: float = 10.0,
        request_timeout: float = 5.0,
        **options: Any,
    ) -> None:
        super().__init__(board, address)
        if client is not None and (address.hosts or address.username or options):
            raise ValueError("with client=, the hosts, the user and the options of a connection are the client's own")
        self._acl = acl
        if acl is None and (address.username is not None or options.get("sasl_options")):
            self._acl = access("creator")
        self._settings = _settings_of(address, session_timeout, options)
        self._lent = client
        self._patience = request_timeout
        self._is_open = False
        self._pid = os.getpid()
        self._layout = Layout(address.path.rstrip("/") or "/jobboard", board)
        self._assemble()

    def _assemble(self) -> None:
        """Make the parts anew; they belong to one process."""
        self._line = Line(self._settings, self._patience, self._lent, self._state_changed)
        self._clock = Clock()
        self._sessions = Sessions(self._line, self._layout, self._clock, self._acl_now)
        self._listing = Listing()
        self._tracker = Tracker(self._line, self._layout, self._sessions, self._listing)
        self._engine = Engine(self._line, self._layout, self._tracker, self._clock, self._acl_now)
        self._editor = Editor(self._line, self._layout, self._engine, self._sessions, self._clock)

    def _warn_if_open(self) -> None:
        """Somebody who logs in means to be alone; what is open to all by mistake stays so, znode by znode."""
        logs_in = self.address.username is not None or self._settings.get("sasl_options")
        if logs_in and any(row.id.scheme == "world" and row.perms & ~_READ for row in self._acl_now()):
            logger.warning(
                "board %r logs in, but its znodes are open to everybody: acl=creator closes new ones", self.board
            )

    def _acl_now(self) -> Sequence[Any]:
        return acl_of(self._line.client, self._acl)

    # -- connection ------------------------------------------------------------------------------------------------

    def boards(self, timeout: float) -> list[str]:
        with time_limit(timeout):
            self._line.open(timeout)
            try:
                return [unquote(part) for part in self._line.call("get_children", self._layout.home)]
            except NoNodeError:
                return []
            except KazooException as error:
                raise translated(self._line.where, error) from None
            finally:
                self._line.close(keep_session=False)

    def open(self, timeout: float) -> None:
        if self._pid != os.getpid():
            self._line.abandon()
            self._assemble()
            self._pid = os.getpid()
        deadline = time.monotonic() + timeout
        with time_limit(timeout):
            self._line.open(timeout)
            try:
                while not self._is_prepared(deadline):
                    self._line.wait_until_connected(max(0.0, deadline - time.monotonic()))
            except BaseException:
                self._sessions.forget()
                self._line.close(keep_session=False)
                raise
        self._is_open = True
        self._warn_if_open()

    def _is_prepared(self, deadline: float) -> bool:
        """Make what every board has; False if the connection broke on the way and there is time left."""
        try:
            request = MultiRead()
            for path in self._layout.fixed:
                request.get(self._line.chroot + path)
            found = self._line.read(request)
            missing = [path for path, data in zip(self._layout.fixed, found, strict=True) if data is None]
            if self._layout.logs not in missing and self._layout.log(0) in missing:
                # A log that began anew has another generation.
                missing.remove(self._layout.log(0))
            if len(missing) < len(self._layout.fixed) or not self._make_all():
                for path in missing:
                    self._make(path)
            deleted = found[self._layout.fixed.index(self._layout.deleted)]
            self._editor.deletions = 0 if deleted is None else deleted.stat.version
            self._sessions.mine()
            return True
        except BoardUnavailable as error:
            # All of this can be asked again, for as long as there is time: also of a server that is slow.
            is_open_ended = isinstance(error, ReplyLost) or not self._line.connected
            if time.monotonic() < deadline and is_open_ended:
                return False
            raise
        except KazooException as error:
            raise translated(self._line.where, error) from None

    def _make_all(self) -> bool:
        """Make a whole board at once, as nearly always; False if somebody else does so too, or the root is missing."""
        request = Multi(self._line.chroot, self._acl_now())
        for path in (self._layout.root, *self._layout.fixed):
            request.create(path, b"")
        fault = fault_in(self._line.ask(request))
        if fault is not None and fault[1] not in (NODE_EXISTS, NO_NODE):
            raise refused(self._line.where, fault[1])
        return fault is None

    def _make(self, path: str) -> None:
        try:
            self._line.call("create", path, b"", acl=self._acl_now(), makepath=True)
        except NodeExistsError:
            pass

    def close(self) -> None:
        """Let go. Claims stay: then the session is left to its own end, or, of a lent client, the presence."""
        self._is_open = False
        presence = self._sessions.present
        holds = presence is not None and bool(self._editor.held_under(presence))
        if self._lent is not None and presence is not None and not holds:
            try:
                self._sessions.withdraw(presence)
            except BoardUnavailable as error:
                logger.debug("the presence of board %s is left to its session: %s", self.board, error)
        self._line.close(keep_session=holds)
        self._sessions.forget()
        self._editor.clear()
        self._tracker.clear()

    @property
    def connected(self) -> bool:
        return self._is_open and self._line.connected

    def now(self) -> float:
        self._check_open()
        return self._clock.now()

    def refresh(self) -> None:
        self._begin()
        self._tracker.refresh()

    def _state_changed(self, state: str) -> None:
        """Learn from kazoo's thread how the connection is; must not block."""
        if state == KazooState.LOST:
            self._sessions.give_up()

    # -- what every primitive begins with --------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._is_open:
            raise BoardUnavailable("the board is closed")

    def _begin(self) -> None:
        """Begin a primitive: the board is open, and this client's presence is that of the present session."""
        self._check_open()
        self._line.wait_until_connected()
        self._sessions.check_session()

    def _read_paused(self) -> tuple[frozenset[str | None], int]:
        """Return the paused names, and the version that says so."""
        request = MultiRead()
        request.get(self._line.chroot + self._layout.paused)
        (found,) = self._line.read(request)
        if found is None:
            raise BoardUnavailable(f"{self._layout.paused} is missing; was the board deleted?")
        return names_in(found, self._layout.paused), found.stat.version

    def _settle_all(self) -> float:
        """Bring the whole board up to this moment, which is returned; the listing must be in step."""
        now = self._clock.now()
        with self._listing.lock:
            self._listing.hide(now)
            due = self._listing.due(now)
            for presence in self._listing.by_presence:
                if not self._sessions.is_present(presence):
                    due += self._listing.by_presence[presence]
        # What becomes due meanwhile, or is changed by others, is for the next look.
        due = list(dict.fromkeys(due))
        for start in range(0, len(due), _SETTLE_AT_ONCE):
            part = due[start : start + _SETTLE_AT_ONCE]
            for uuid, record in zip(part, self._editor.settle(part), strict=True):
                # A znode that was damaged or deleted has no line in the log, and would stay due for ever.
                self._tracker.correct(uuid, record)
        if due:
            self._tracker.refresh()
        return now

    def _look_around(self) -> float:
        """Catch up with the board and bring it up to this moment, which is returned."""
        self._begin()
        self._tracker.refresh()
        return self._settle_all()


def _settings_of(address: Address, session_timeout: float, options: dict[str, Any]) -> dict[str, Any]:
    """Return what kazoo's client is made with."""
    hosts = address.hosts or (("localhost", None),)
    settings: dict[str, Any] = {
        **{name: value for name, value in options.items() if name not in TLS_OPTIONS},
        **tls_of(options),
        "hosts": ",".join(f"{_bracketed(host or 'localhost')}:{port or _PORT}" for host, port in hosts),
        "timeout": session_timeout,
    }
    if address.username is not None:
        settings["auth_data"] = [("digest", f"{address.username}:{address.password or ''}")]
    return settings


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
