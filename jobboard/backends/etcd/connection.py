"""The requests of one board: reads at one moment and transactions; and the server's time."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

from jobboard.backends.errors import incomplete_list
from jobboard.backends.etcd import space
from jobboard.backends.etcd.http_client import HttpClient
from jobboard.backends.etcd.keys import LAYOUT, Keys, decoded
from jobboard.backends.etcd.txn import (
    Found,
    KeyValue,
    Op,
    Txn,
    TxnResult,
    absent,
    after,
    at_revision,
    delete,
    get,
    many,
    modified_at,
    parts_of,
    put,
    result_of,
    scan,
    scan_prefix,
)
from jobboard.backends.findings import Shortage
from jobboard.backends.layout import STORED_LAYOUT, check_layout, check_stopped, must_upgrade
from jobboard.backends.timelimit import is_time_over
from jobboard.backends.warn_once import warn_once
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")


class Connection:
    """Sends the reads and transactions of a board; :class:`HttpClient` finds the endpoint."""

    def __init__(self, http: HttpClient, keys: Keys) -> None:
        self.http = http
        self.keys = keys
        self.is_open = False
        self._revision = 0

    def check_open(self) -> None:
        """Raise ``BoardUnavailable`` unless the board is open."""
        if not self.is_open:
            raise BoardUnavailable("the board is closed")

    def check_server(self) -> None:
        """Check that this user can read the board, replies tell the time, and the layout is ours; a new board gets it.

        :raises BoardUnavailable: one of these is not so.
        """
        found = self.read([get(self.keys.layout)])[0].first
        if not self.http.clock.is_known:
            raise BoardUnavailable(
                f"what answers at {self.http.where} tells no time, by which claims and delays end: its replies lack "
                "the header Date; let a proxy before etcd pass it on"
            )
        layout = self._write_layout() if found is None else found.value
        check_layout(self.keys.board, self._where, layout)

    def upgrade(self, count_running: Callable[[], int]) -> bytes | None:
        """Bring the board to our layout, and return the number of the one that it had; None if there was none.

        Earlier ones have the same keys and values, but fewer.

        :param count_running: returns how many conductors and schedulers use the board.
        :raises BoardUnavailable: it has a later one, or others use it.
        """
        key = self.keys.layout
        found = self.read([get(key)])[0].first
        if found is None:
            self._write_layout()
        elif must_upgrade(self.keys.board, self._where, found.value):
            check_stopped(self.keys.board, self._where, count_running())
            upgraded = Txn([modified_at(key, found.modified)], [put(key, STORED_LAYOUT)])
            if not self.send(upgraded).succeeded:
                raise BoardUnavailable("another client has changed the board's layout; try again")
        return None if found is None else found.value

    @property
    def _where(self) -> str:
        return f"etcd at {self.http.where}"

    def _write_layout(self) -> bytes:
        """Give a new board our layout; return the one that it has, since another client may be faster."""
        key = self.keys.layout
        txn = Txn([absent(key)], [put(key, STORED_LAYOUT)], [get(key)])
        written = next(self.send(txn).found(), None)
        return STORED_LAYOUT if written is None or written.first is None else written.first.value

    def read(self, ops: Sequence[Op]) -> list[Found]:
        """Read several ranges at one moment, whatever their number; return one answer for each."""
        found: list[Found] = []
        revision = 0
        for part in parts_of(ops):
            then = [at_revision(op, revision) for op in part] if revision else part
            result = self._ask(Txn(then=many(then)), changes=False)
            revision = revision or result.revision
            found += result.found()
        return found

    def send(self, txn: Txn) -> TxnResult:
        """Send a transaction that changes something."""
        return self._ask(txn, changes=True)

    def delete(self, kv: KeyValue) -> bool:
        """Delete a key as it was read; False, and nothing is done, if another client has written it since."""
        return self.send(Txn([modified_at(kv.key, kv.modified)], [delete(kv.key)])).succeeded

    def _ask(self, txn: Txn, *, changes: bool) -> TxnResult:
        """Send a transaction; warn if the store's revision is lower than it was before, since tokens are revisions."""
        before = self._revision
        result = result_of(self.http.call("/kv/txn", txn.payload(), changes=changes))
        self._revision = max(self._revision, result.revision) if result.revision >= before else result.revision
        if result.revision < before:
            logger.warning(
                "etcd at %s has gone back from revision %d to %d: it was wiped, or restored from a backup. Tokens that "
                "were given since are given again, to other claims",
                self.http.where,
                before,
                result.revision,
            )
        return result

    def server_version(self) -> str:
        """Return the version of an endpoint; "" if what answers, such as a proxy, tells none."""
        found = re.search(r'"etcdserver": ?"([\d.]+)', self.http.request_time())
        return found[1] if found else ""

    def shortages(self) -> list[Shortage]:
        """Return whether the space of the endpoint that answers is nearly full; [] if this user may not ask."""
        try:
            status = self.http.call("/maintenance/status", {}, changes=False)
        except BoardUnavailable:
            return []
        return space.shortages_of(status, self.http.where)

    def warn_of_shortages(self) -> None:
        for shortage in self.shortages():
            warn_once(logger, shortage.text)

    def board_exists(self) -> bool:
        """Whether anything but the layout is stored of this board."""
        found = self.read([scan_prefix(self.keys.root, 2, keys_only=True)])[0].kvs
        return any(kv.key != self.keys.layout for kv in found)

    def board_names(self) -> list[str]:
        """Return the names of all boards, with one request for each.

        :raises BoardUnavailable: the time is over before all were found, or the user may not read the keys of others.
        """
        home, names = self.keys.home, list[str]()
        start, end = home, after(home)
        while not is_time_over():
            found = self.read([scan(start, end, 2, keys_only=True)])[0].kvs
            if not found:
                return names
            part = found[0].key[len(home) :].partition(b"/")[0]
            root = home + part + b"/"
            if any(kv.key.startswith(root) and kv.key != root + LAYOUT for kv in found):
                names.append(decoded(part))
            start = after(root)
        raise incomplete_list(names)

    # -- time ------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return the moment that the server's clock has certainly reached."""
        return self.http.clock.now()

    def latest(self) -> float:
        """Return the moment that the server's clock has certainly not passed: claims and delays last from here."""
        return self.http.clock.latest()
