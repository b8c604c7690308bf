"""The limits of lanes, as this client knows them. Each has a znode; a lane asks for its own, and for its prefix's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jobboard.backends.kv.cache import LruCache
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.limits import UNLIMITED, LaneLimit, lane_limit
from jobboard.backends.zookeeper.codec import NameRules, decode_limit, name_rules
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.requests import Data
from jobboard.errors import BoardUnavailable
from jobboard.limit import Limit, prefix_of

MAX_RETRIES = 10
#: Patterns that a client remembers, and that it reads in one request.
MAX_KNOWN, MAX_READS = 20_000, 400


class KnownLimits(NamedTuple):
    """The limits of some lanes; they hold as long as the znode ``paused`` has this version."""

    version: int
    by_lane: dict[str, LaneLimit]


class LaneLimits:
    """Remembers limits for as long as none is changed: each change sets ``paused``, which steps of lanes check."""

    def __init__(self, connection: Connection, layout: Layout, listing: Listing) -> None:
        self._connection, self._layout, self._listing = connection, layout, listing
        #: What was read last, if that may still be so.
        self._rules: NameRules | None = None
        #: By the version of ``paused``, and the pattern; an empty one where there is none.
        self._known: LruCache[Limit] = LruCache(MAX_KNOWN)

    def doubt(self) -> None:
        """Read anew which limits there are before the next step: they may have changed."""
        self._rules = None

    def clear(self) -> None:
        """Forget everything: the servers may have gone back to a backup, where versions come again."""
        self.doubt()
        self._known.clear()

    def all(self) -> list[LimitRow]:
        """Return the limits of all lanes and names, as the servers have them now."""
        paths = self._connection.in_buckets(self._layout.limits)
        found = (decode_limit(data.data) for _, data in self._connection.existing(paths, is_fresh=False))
        return [row for row in found if row is not None]

    def of(self, lanes: Iterable[str]) -> KnownLimits:
        """Return the limits of lanes; no request if they are known, or the board never had any.

        :raises BoardUnavailable: they change all the time, or one can't be decoded.
        """
        wanted = {lane: prefix_of(lane) or lane for lane in lanes}
        patterns = list(dict.fromkeys([*wanted, *wanted.values()]))
        for _ in range(MAX_RETRIES + len(patterns) // MAX_READS):
            rules = self._present()
            if rules is not None and not rules.has_lanes:
                return KnownLimits(rules.version, dict.fromkeys(wanted, UNLIMITED))
            version = None if rules is None else rules.version
            known = {pattern: self._known.get(f"{version} {pattern}") for pattern in patterns}
            missing = [pattern for pattern, limit in known.items() if limit is None]
            if version is not None and not missing:
                limits = {lane: lane_limit(known[lane], known.get(prefix)) for lane, prefix in wanted.items()}
                return KnownLimits(version, limits)
            self._read(missing[:MAX_READS])
        raise BoardUnavailable("the limits of lanes change faster than this client can read them")

    def _present(self) -> NameRules | None:
        """Return what was read last, or what a look has shown since."""
        with self._listing.lock:
            looked = self._listing.rules
        # Another thread may doubt it at any moment.
        rules = self._rules
        if rules is not None and looked.version > rules.version:
            rules = self._rules = looked
        return rules

    def _read(self, patterns: Sequence[str]) -> None:
        """Read limits, and ahead of them what every change of a limit sets."""
        path = self._layout.paused
        paths = [self._layout.limit("lane", pattern) for pattern in patterns]
        paused, *found = self._connection.read_many([path, *paths])
        rules = self._rules = name_rules(paused, path)
        for pattern, data in zip(patterns, found, strict=True):
            self._known.put(f"{rules.version} {pattern}", _limit(pattern, data))


def _limit(pattern: str, data: Data | None) -> Limit:
    if data is None:
        return Limit()
    row = decode_limit(data.data)
    if row is None:
        raise BoardUnavailable(f"the limit of the lane {pattern!r} is damaged; set it anew")
    return row.limit
