"""Makes what every board has in ZooKeeper, and finds which boards exist."""

from __future__ import annotations

import time
from collections.abc import Sequence
from urllib.parse import unquote

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from jobboard.backends.layout import STORED_LAYOUT, check_layout, check_stopped, must_upgrade
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import from_kazoo, refused
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.requests import NO_NODE, NODE_EXISTS, Data, fault_in
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.errors import BoardUnavailable, ReplyLost


class BoardCreation:
    """Creates a board's fixed znodes, as far as they don't exist, and this client's presence."""

    def __init__(self, connection: Connection, layout: Layout, sessions: Sessions, reader: JobReader) -> None:
        self._connection, self._layout, self._sessions, self._reader = connection, layout, sessions, reader

    def boards(self) -> list[str]:
        home = self._layout.home
        try:
            found = [unquote(part) for part in self._connection.call("get_children", home)]
            # What a user has put there is no board, nor a path below it that has boards. Whether a znode is there may
            # be asked without a right to read it.
            return [name for name in found if self._connection.call("exists", Layout(home, name).number)]
        except NoNodeError:
            return []
        except KazooException as error:
            raise from_kazoo(self._connection.where, error) from None

    def create(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._is_created(deadline):
            self._connection.wait_until_connected(max(0.0, deadline - time.monotonic()))

    def _is_created(self, deadline: float) -> bool:
        """Create what is missing; False if the connection broke on the way and there is time left."""
        try:
            self._create_missing()
            self._sessions.mine()
            return True
        except BoardUnavailable as error:
            # All of this can be asked again while there is time: also of a server that is slow.
            can_be_repeated = isinstance(error, ReplyLost) or not self._connection.connected
            if time.monotonic() < deadline and can_be_repeated:
                return False
            raise
        except KazooException as error:
            raise from_kazoo(self._connection.where, error) from None

    def _create_missing(self) -> None:
        found = dict(zip(self._layout.fixed, self._connection.read_many(self._layout.fixed), strict=True))
        self._check_number(found[self._layout.number])
        missing = [path for path, data in found.items() if data is None]
        if self._layout.logs not in missing and self._layout.log(0) in missing:
            # A log that began anew has another generation.
            missing.remove(self._layout.log(0))
        layout = self._layout
        if len(missing) < len(layout.fixed) or not self._create_at_once([layout.root, *layout.fixed, *layout.buckets]):
            for path in missing:
                self._create(path)
            if layout.number in missing:
                # Another client may have been faster.
                self._check_number(self._connection.read_many([layout.number])[0])
            if layout.jobs in missing:
                self._create_at_once(layout.buckets)
        deleted = found[self._layout.deleted]
        self._reader.deletions = 0 if deleted is None else deleted.stat.version

    def upgrade(self) -> bytes | None:
        """Bring the board to our layout, and return the number of the one that it had; None if there was none.

        Earlier ones have the same znodes and values: clients of layout 1 claim delayed jobs in another order, those of
        layout 2 know neither lanes nor limits, and those of layout 3 neither parents nor signals.

        :raises BoardUnavailable: it has a later one, or other clients use it.
        """
        number = self._layout.number
        try:
            found = self._connection.read_one(number)
            if found is None:
                self._create(number)
                return None
            if must_upgrade(self._layout.board, self._where, found.data):
                clients = self._connection.call("get_children", self._layout.sessions)
                check_stopped(self._layout.board, self._where, len(clients))
                request = self._connection.new_write()
                request.set(number, STORED_LAYOUT, found.stat.version)
                if not self._connection.is_written(request):
                    raise BoardUnavailable("another client has changed the board's layout; try again")
        except KazooException as error:
            raise from_kazoo(self._connection.where, error) from None
        return bytes(found.data)

    @property
    def _where(self) -> str:
        return f"ZooKeeper at {self._connection.where}"

    def _check_number(self, found: Data | None) -> None:
        if found is not None:
            check_layout(self._layout.board, self._where, found.data)

    def _create_at_once(self, paths: Sequence[str]) -> bool:
        """Create all of these, which usually works; False if another client does so too, or without a root."""
        request = self._connection.new_write()
        for path in paths:
            request.create(path, self._first_data(path))
        fault = fault_in(self._connection.write(request))
        if fault is not None and fault[1] not in (NODE_EXISTS, NO_NODE):
            raise refused(self._connection.where, fault[1])
        return fault is None

    def _create(self, path: str) -> None:
        try:
            self._connection.call("create", path, self._first_data(path), acl=self._connection.acl, makepath=True)
        except NodeExistsError:
            pass

    def _first_data(self, path: str) -> bytes:
        return STORED_LAYOUT if path == self._layout.number else b""
