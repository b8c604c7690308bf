"""Reads whole ranges of keys in pages, all at one revision."""

from __future__ import annotations

from collections.abc import Iterator

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.txn import KeyValue, after, at_revision, get, scan

_AT_ONCE = 500


class Snapshot:
    """What is stored at the present revision."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        (found,) = connection.read([get(connection.keys.sequence, keys_only=True)])
        self.revision = found.revision

    def pages(self, prefix: bytes, *, keys_only: bool = False, size: int = _AT_ONCE) -> Iterator[KeyValue]:
        """Iterate over the keys that begin with this, read in pages of this size."""
        start = prefix
        while True:
            op = at_revision(scan(start, after(prefix), size, keys_only=keys_only), self.revision)
            (page,) = self._connection.read([op])
            yield from page.kvs
            if not page.more:
                return
            start = page.kvs[-1].key + b"\0"
