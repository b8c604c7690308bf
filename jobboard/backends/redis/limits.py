"""Limits on Redis, and the lanes that they hold for. Each method is one script and one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jobboard.backends.lane_rows import LaneDetail, LanePage, LaneRow, LimitRow
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.limits import pack_limit, unpack_limit
from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import logger, pack, rows_of, text_of
from jobboard.backends.redis.ends import VERDICTS
from jobboard.backends.rows import Verdict


class Limits(LimitStore):
    """The limits of one board."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def all(self) -> list[LimitRow]:
        return limits_of(self._client.read("limits")[1])

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        limit = row.limit
        running = limit.running if limit.lane is None else None
        is_deleted = limit.is_empty and not row.is_pending
        wish = [*row.key, row.version, after, is_deleted, running, limit.by, str(limit)]
        return VERDICTS[self._client.change("put_limit", pack(wish), pack_limit(row))[1]]

    def finish(self, row: LimitRow) -> None:
        left = b"" if row.limit.is_empty else pack_limit(replace(row, is_pending=False))
        self._client.change("finish_limit", pack([*row.key, row.version]), left)

    def look(self, lanes: Sequence[str]) -> list[str]:
        if not lanes:
            return []
        return [text_of(lane) for lane in self._client.change("look", pack(list(lanes)))[1]]

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        _, after, found = self._client.read("page_lanes", pattern, str(cursor or ""), str(size))
        return LanePage([text_of(lane) for lane in found], text_of(after) or None)

    def longest(self, count: int) -> list[LaneRow]:
        _, found = self._client.call_until_current("longest_lanes", str(count))
        return sorted(map(_lane_row_of, found), key=lambda row: (-row.blocked, row.lane))

    def lane(self, lane: str, count: int) -> LaneDetail:
        _, row, next_in, parts = self._client.read("lane", lane, str(count))
        return LaneDetail(_lane_row_of(row), rows_of(parts), None if next_in < 0 else next_in / 1e6)


def limits_of(pairs: Sequence[bytes]) -> list[LimitRow]:
    """Return limits as ``limits.lua`` returns them, but for those that can't be read, which an audit finds."""
    found = []
    for key, data in zip(pairs[::2], pairs[1::2], strict=True):
        scope, _, pattern = text_of(key).partition("\n")
        try:
            found.append(unpack_limit(scope, pattern, data))
        except ValueError as error:
            logger.warning("%s", error)
    return found


def _lane_row_of(parts: Sequence[Any]) -> LaneRow:
    lane, claimed, claimable, retrying, blocked, oldest = parts
    moment = None if oldest is None else int(oldest) / 1e6
    return LaneRow(text_of(lane), claimed, claimable, retrying, blocked, moment)
