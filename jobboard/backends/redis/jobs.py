"""Jobs on Redis: posted, claimed, ended and read. Each method is one script and one round trip."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from jobboard.backends.reasons import ahead_of_time, by_whom
from jobboard.backends.redis.client import MAX_STEPS, RedisClient, endless
from jobboard.backends.redis.codec import (
    MAX_TOKEN,
    claim_parts,
    fence_parts,
    history_of,
    pack,
    pack_each,
    posted_row,
    posting_parts,
    rows_of,
    text_of,
)
from jobboard.backends.redis.ends import VERDICTS, EndsWithPosts, claim_answer, posted_of
from jobboard.backends.redis.moments import micros, span
from jobboard.backends.roles import JobStore
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    JobRow,
    NewJob,
    Page,
    Posted,
    PostOutcome,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats

_CANCEL_OUTCOMES = {outcome.name.encode(): outcome for outcome in CancelOutcome}
_TRASH_OUTCOMES = {outcome.name.encode(): outcome for outcome in TrashOutcome}

#: For how many sets of names it is known at most where the search for exchanges goes on.
_MAX_KNOWN = 100


class Jobs(JobStore):
    """The jobs of one board."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._ends = EndsWithPosts(client)
        #: By the names that were asked for: how many claims there were, and where the last search for exchanges ended.
        self._searches: dict[frozenset[str] | None, tuple[int, int]] = {}

    # -- posting ---------------------------------------------------------------------------------------------------

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        if not rows:
            return []
        parts: list[Any] = []
        bodies: list[bytes] = []
        for new in rows:
            parts += posting_parts(new)
            bodies.append(new.body)
        reply = self._client.change("post", pack_each(parts), *bodies)
        if len(reply) == 2:
            now, last = reply
            sequence = last - len(rows)
            posted: list[Posted] = []
            for new in rows:
                sequence += 1
                posted.append(Posted(PostOutcome.POSTED, posted_row(new, sequence, now)))
            return posted
        return posted_of(rows, *reply[1:])

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        answers = self._change_each("cancel", uuids, by, reason, by_whom(by, reason))
        return [_CANCEL_OUTCOMES[answer] for answer in answers]

    # -- claiming --------------------------------------------------------------------------------------------------

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        status, *parts = self._client.change("claim", pack([uuid, claim.who, claim.claim_id, span(claim.expiry)]))
        return None if status == b"MISSING" else rows_of(parts[0])[0]

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        claims, begin = self.search(names)
        request = pack(claim_parts(claim, limit, names, begin))
        _, parts, skipped, *exchanged = self._client.call_until_current("claim_next", request, changes=True)
        if len(self._searches) >= _MAX_KNOWN and names not in self._searches:
            self._searches.clear()
        self._searches[names] = claims + 1, exchanged[0] if exchanged else begin
        self._client.warn_of_newer(skipped)
        return rows_of(parts)

    def search(self, names: frozenset[str] | None) -> tuple[int, int]:
        """Return how many claims by these names there were, and where the next one begins to search for exchanges."""
        return self._searches.get(names, (0, 0))

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        found: list[JobRow] = []
        place = b""
        for _ in range(MAX_STEPS):
            # The claim whose reply was lost is a change, and may still have to reach replicas.
            _, place, parts = self._client.change("claimed_under", claim_id, place)
            found += rows_of(parts)
            if not place:
                return found
        raise endless("claimed_under")

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        return self._claim_answers(
            "extend", [[*fence_parts(one.fence), span(one.expiry), one.progress] for one in renewals]
        )

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if any(end.posts or end.seal is not None for end in ends):
            return self._ends.finish(ends, self._consume)
        return self._consume(ends)

    def _consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        parts: list[Any] = []
        for end in ends:
            parts += (*fence_parts(end.fence), micros(end.retention), False if end.result is None else end.result)
        return self._claim_answers("consume", parts)

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        items = [
            [
                *fence_parts(end.fence),
                micros(end.delay) if end.delay > 0 else None,
                None if end.run_at is None else micros(end.run_at),
                end.reason,
                end.error,
                end.counted,
                end.signal,
            ]
            for end in ends
        ]
        return self._claim_answers("abandon", items)

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        return self._ends.finish(ends, self._trash) if any(end.posts for end in ends) else self._trash(ends)

    def _trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        items = [
            [*([end.uuid, end.by, None] if end.fence is None else fence_parts(end.fence)), end.reason, end.error]
            for end in ends
        ]
        return self._claim_answers("trash", items)

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        return claim_answer(self._client.change("checkpoint", pack(fence_parts(fence)), state)[1])

    def _claim_answers(self, script: str, items: Sequence[object]) -> list[ClaimAnswer]:
        return [claim_answer(answer) for answer in self._client.change_all(script, items)]

    def _change_each(self, script: str, uuids: Sequence[str], *wish: int | str | None) -> list[Any]:
        """Do what an operator wishes to each of these jobs, by whom and why; the wish is sent once for all of them."""
        return self._client.change_all(script, list(uuids), pack(wish))

    # -- operators -------------------------------------------------------------------------------------------------

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return VERDICTS[self._client.change("release", pack([uuid, min(token, MAX_TOKEN), reason]))[1]]

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        return [VERDICTS[answer] for answer in self._change_each("run_now", uuids, by, ahead_of_time(reason))]

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        return [VERDICTS[answer] for answer in self._change_each("reprioritize", uuids, priority, by, reason)]

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return [_TRASH_OUTCOMES[answer] for answer in self._change_each("restore", uuids, by, reason)]

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return [_TRASH_OUTCOMES[answer] for answer in self._change_each("purge", uuids, by, reason)]

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        if not uuids:
            return []
        _, there, parts = self._client.read("read", pack(list(uuids)))
        rows = iter(rows_of(parts))
        return [next(rows) if is_there else None for is_there in there]

    def history(self, uuid: str) -> list[HistoryEntry]:
        status, *entries = self._client.read("history", uuid)
        return [] if status == b"MISSING" else history_of(entries[0])

    def find(self, name: str, key: str) -> JobRow | None:
        status, *parts = self._client.read("find", name, key)
        return None if status == b"MISSING" else rows_of(parts[0])[0]

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        return self._page("page", [[state.value for state in states]], names, cursor, size)

    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        return self._page("claimable", [], names, cursor, size)

    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        # Without a waiter that it might arm.
        request = pack([None if names is None else list(names), None, 0])
        _, moment, _, is_any_blocked = self._client.call_until_current("ready_in", request)
        if moment == 0:
            return JobState.UNCLAIMED
        return JobState.BLOCKED if is_any_blocked else None

    def _page(
        self, script: str, which: list[Any], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        if cursor is not None and not isinstance(cursor, bytes):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        wanted = None if names is None else list(names)
        _, last, parts = self._client.call_until_current(script, pack([*which, wanted, cursor, size]))
        return Page(rows_of(parts), last or None)

    def stats(self) -> BoardStats:
        _, counts, age = self._client.call_until_current("stats")
        names = {text_of(name): NameStats(*numbers) for name, numbers in zip(counts[::2], counts[1::2], strict=True)}
        return BoardStats.of(names, None if age < 0 else age / 1e6)

    def count(self) -> int:
        return int(self._client.call_until_current("count")[1])
