"""Claims from several shards, which begin with an owner's homes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from jobboard.backends.rows import Abandonment, ClaimRequest, Fence, JobRow
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.homes import Homes
from jobboard.backends.shards.roster import REFRESH_OF_CLAIMS
from jobboard.backends.shards.turns import Turns
from jobboard.errors import BoardUnavailable, ReplyLost

#: For each job that it gets, an owner who waits may ask so many shards in vain; and so many in a row: four times those
#: that it would have alone, within these bounds.
CREDIT, MIN_SAVED, MAX_SAVED = 0.15, 2.0, 32.0

_LOST_REPLY = "the reply to its claim was lost"


class Claims:
    """The primitives ``claim_next`` and ``claimed_under``."""

    def __init__(self, fleet: Fleet, homes: Homes, turns: Turns) -> None:
        self._fleet, self._homes, self._turns = fleet, homes, turns
        #: Where a waiter has seen jobs that can be claimed, or may be, and where a claim got all that it asked for.
        self._seen: dict[int, None] = {}
        self._rich: int | None = None
        #: Where the last claim was that got a job.
        self.last: int | None = None
        self._credit = min(MAX_SAVED, float(len(fleet.served)))
        #: Of each shard the requests of which nobody knows what they have claimed, since it went away meanwhile.
        self._doubts: dict[int, list[str]] = {}

    def begin_at(self, number: int) -> None:
        """Let the next claim ask this shard, behind those that it was told of before."""
        self._seen[number] = None

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        """Claim from shard after shard; what does not answer is passed over, unless none does.

        That there is no job nothing says but the answers of all shards. An owner with homes does without them: it
        takes what the first shard has that has any. Where it knows of no job, it asks as many shards as its credit
        allows; then its waiter asks. Others let slots of limits of names move at once to where these jobs wait.
        """
        with suppress(BoardUnavailable):
            # Whoever only claims learns so of shards that are gone.
            self._fleet.roster.fresh(REFRESH_OF_CLAIMS)
        rows: list[JobRow] = []
        failures: list[BoardUnavailable] = []
        has_answer, waits = False, self._homes.are_known_to(claim.who)
        if waits:
            for number in self._turns.take_when_due():
                self.begin_at(number)
        for number in self._order(claim.who, waits):
            self._seen.pop(number, None)
            try:
                found = self._claim_from(number, claim, names, limit - len(rows))
            except BoardUnavailable as error:
                failures.append(error)
                continue
            has_answer = True
            self._learn(claim.who, number, len(found), limit - len(rows))
            rows += found
            if len(rows) >= limit or (rows and waits):
                break
        if len(rows) < limit and has_answer and not waits:
            rows += self._claim_from_moved(claim, names, limit - len(rows))
        if failures and not has_answer and not waits:
            raise next((error for error in failures if isinstance(error, ReplyLost)), failures[0])
        return sorted(rows, key=claim_order)

    def _claim_from_moved(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        """Claim from the shards that have got a slot of a name just now; one that does not answer is passed over."""
        rows: list[JobRow] = []
        for number in self._turns.take_now(names):
            if len(rows) < limit:
                with suppress(BoardUnavailable):
                    rows += self._claim_from(number, claim, names, limit - len(rows))
        return rows

    def _order(self, who: str, waits: bool) -> Iterator[int]:
        """Yield the shards to ask one after the other, as long as nothing is found."""
        seen = list(self._seen)
        # Of a home the waiter tells.
        rich = None if self._rich is None or self._homes.has(who, self._rich) else self._rich
        sure = list(dict.fromkeys(seen if rich is None else [*seen, rich]))
        if waits and self._credit < 1:
            return iter(sure)
        order = self._homes.order(who, seen, self._rich)
        return (number for number in order if not waits or self._credit >= 1 or number in sure)

    def _learn(self, who: str, number: int, found: int, wanted: int) -> None:
        """Learn from an answer whether the next claim may begin there; what is found gives credit."""
        if found == wanted:
            if self._rich is None or self._homes.has(who, number):
                self._rich = number
        elif self._rich == number:
            self._rich = None
        self._credit = min(self._most_saved(), self._credit + CREDIT * found) if found else max(0.0, self._credit - 1)

    def _most_saved(self) -> float:
        """Return how much credit an owner saves up: where many share the shards, others look at them too."""
        count = len(self._fleet.served)
        return min(float(count), max(MIN_SAVED, min(MAX_SAVED, 4.0 * count / self._homes.owners)))

    def _claim_from(self, number: int, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        self._give_back_doubtful(number)
        try:
            found = self._fleet.ask(number, lambda shard: shard.jobs.claim_next(claim, names, limit))
        except ReplyLost:
            found = self._claimed_on(number, claim.claim_id)
        self._remember(found, number)
        if found:
            self.last = number
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
        for number in self._fleet.present:
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
