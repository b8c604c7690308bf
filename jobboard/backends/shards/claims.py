"""Claims from several shards, which begin with an owner's homes."""

from __future__ import annotations

from jobboard.backends.rows import Abandonment, ClaimRequest, Fence, JobRow
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.homes import Homes
from jobboard.errors import BoardUnavailable, ReplyLost

_LOST_REPLY = "the reply to its claim was lost"


class Claims:
    """The primitives ``claim_next`` and ``claimed_under``."""

    def __init__(self, fleet: Fleet, homes: Homes) -> None:
        self._fleet, self._homes = fleet, homes
        #: Where a waiter has seen a job that can be claimed.
        self._seen: int | None = None
        #: Of each shard the requests of which nobody knows what they have claimed, since it went away meanwhile.
        self._doubts: dict[int, list[str]] = {}

    def begin_at(self, number: int) -> None:
        """Let the next claim begin with this shard."""
        self._seen = number

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        """Claim from shard after shard; what does not answer is passed over, unless none does."""
        rows: list[JobRow] = []
        failures: list[BoardUnavailable] = []
        seen, self._seen = self._seen, None
        order = self._homes.order(claim.who, seen)
        for number in order:
            try:
                rows += self._claim_from(number, claim, names, limit - len(rows))
            except BoardUnavailable as error:
                failures.append(error)
            if len(rows) >= limit:
                break
        if len(failures) == len(order):
            raise next((error for error in failures if isinstance(error, ReplyLost)), failures[0])
        return sorted(rows, key=claim_order)

    def _claim_from(self, number: int, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        self._give_back_doubtful(number)
        try:
            found = self._fleet.ask(number, lambda shard: shard.jobs.claim_next(claim, names, limit))
        except ReplyLost:
            found = self._claimed_on(number, claim.claim_id)
        self._remember(found, number)
        return found

    def _claimed_on(self, number: int, claim_id: str) -> list[JobRow]:
        """Return what a request has claimed on a shard whose reply was lost; the other shards don't wait for it."""
        try:
            return self._fleet.ask(number, lambda shard: shard.jobs.claimed_under(claim_id))
        except BoardUnavailable:
            self._doubts.setdefault(number, []).append(claim_id)
            raise

    def _give_back_doubtful(self, number: int) -> None:
        """Give back what an earlier request may have claimed on this shard; nobody runs it."""
        doubts = self._doubts.pop(number, [])
        for at, claim_id in enumerate(doubts):
            try:
                self._give_back(number, claim_id)
            except BoardUnavailable:
                self._doubts.setdefault(number, []).extend(doubts[at:])
                raise

    def _give_back(self, number: int, claim_id: str) -> None:
        rows = self._fleet.ask(number, lambda shard: shard.jobs.claimed_under(claim_id))
        ends = [
            Abandonment(Fence(row.uuid, row.owner or "", row.token), reason=_LOST_REPLY, counted=False) for row in rows
        ]
        if ends:
            self._fleet.ask(number, lambda shard: shard.jobs.abandon(ends))

    def _forget_doubt(self, number: int, claim_id: str) -> None:
        """Learn that the board itself knows what this request has claimed there."""
        doubts = self._doubts.get(number, [])
        if claim_id in doubts:
            doubts.remove(claim_id)

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        """Look on all shards; one that does not answer matters only if nothing is found."""
        rows: list[JobRow] = []
        failures: list[BoardUnavailable] = []
        for number in range(self._fleet.count):
            try:
                found = self._fleet.ask(number, lambda shard: shard.jobs.claimed_under(claim_id))
            except BoardUnavailable as error:
                failures.append(error)
                continue
            self._forget_doubt(number, claim_id)
            self._remember(found, number)
            rows += found
        if failures and not rows:
            raise failures[0]
        return sorted(rows, key=claim_order)

    def _remember(self, rows: list[JobRow], number: int) -> None:
        for row in rows:
            self._fleet.remember(row.uuid, number)


def claim_order(row: JobRow) -> tuple[int, float, int, str]:
    """Return what sorts jobs as they are claimed; a sequence is one shard's own, so that a uuid decides."""
    return -row.priority, row.place, row.sequence, row.uuid
