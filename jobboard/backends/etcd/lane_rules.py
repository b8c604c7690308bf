"""What the limits of a board say of lanes, as this client knows them; what it writes makes sure that it is still so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.keys import Keys, decoded
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import Compare, KeyValue, get, modified_at, scan_prefix
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.limits import UNLIMITED, LaneLimit, Rules, unpack_limit


class KnownRules(NamedTuple):
    """The limits of lanes, and the comparison that holds while they are so."""

    rules: Rules
    condition: Compare


class LaneRules:
    """One key is rewritten with each limit of a lane: this client reads the limits only when it has changed.

    It begins with none: on a board without limits nothing is read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = connection.keys
        #: Another one with each doubt; that of what is known has been cleared up.
        self._doubt = object()
        none = KnownRules(Rules(()), modified_at(connection.keys.lane_limits, 0))
        self._known = none, self._doubt

    def known(self) -> KnownRules:
        """Return the limits, which are read first if they may have changed."""
        known, cleared = self._known
        # While one thread reads, another one doesn't take what was known before its own doubt.
        doubt = self._doubt
        if doubt is not cleared:
            marker, found = self._connection.read(
                [get(self._keys.lane_limits), scan_prefix(self._keys.limits + b"lane/")]
            )
            rules = Rules(limits_in(self._keys, found.kvs))
            known = KnownRules(rules, modified_at(self._keys.lane_limits, marker.modified))
            self._known = known, doubt
        return known

    def doubt(self) -> None:
        """Read the limits anew when they are needed next."""
        self._doubt = object()

    def note_failure(self, compares: Sequence[Compare]) -> None:
        """Learn that a transaction with these comparisons has failed."""
        if self._known[0].condition in compares:
            self.doubt()

    def limit_of(self, row: StoredJob | None) -> LaneLimit:
        """Return what holds for the lane of a job; what is written of the job makes sure that it is still so."""
        if row is None or row.lane is None:
            return UNLIMITED
        known = self.known()
        row.conditions = (*row.conditions, known.condition)
        return known.rules.of_lane(row.lane)


def limits_in(keys: Keys, kvs: Iterable[KeyValue]) -> list[LimitRow]:
    """Return the limits at these keys, without those that can't be decoded."""
    rows = []
    for kv in kvs:
        scope, _, pattern = kv.key[len(keys.limits) :].partition(b"/")
        try:
            rows.append(unpack_limit(decoded(scope), decoded(pattern), kv.value))
        except ValueError:
            continue
    return rows
