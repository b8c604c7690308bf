"""The shards of a board together: a request goes to those that it concerns, and the answers come back in its order."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from jobboard.backends.base import NO_UUID, Backend
from jobboard.backends.errors import after_a_change
from jobboard.backends.partial import PartialReads, partial_reads
from jobboard.backends.rows import CancelOutcome, JobRow, TrashOutcome, Verdict
from jobboard.backends.shards import placement
from jobboard.backends.shards.absence import Absence
from jobboard.backends.shards.health import Health
from jobboard.backends.shards.missing import missing
from jobboard.backends.shards.roster import Roster
from jobboard.backends.shards.shard_map import Placement, ShardMap, ShardState
from jobboard.backends.timelimit import time_limit
from jobboard.errors import BoardUnavailable, ReplyLost, RequestRefused, TransactionUndone, restated

T = TypeVar("T")
Item = TypeVar("Item")

#: Of how many jobs a client knows that they are not where their uuids say.
_MAX_MISPLACED = 10_000

#: For how many seconds a shard is waited for that did not answer the last time.
DOUBTFUL_TIMEOUT = 2.0

#: What a shard raises that answers.
_ANSWERS = (RequestRefused, TransactionUndone)

_ABSENT = (None, Verdict.LOST, CancelOutcome.MISSING, TrashOutcome.MISSING)


class Fleet:
    """Knows where jobs are, and sends requests there. Thread-safe.

    A request to several shards is sent to all of them, also if one fails: each is a step of its own.

    :param join: opens a shard that did not answer when the board was opened.
    :param is_fixed: whether the board's shards can't change.
    """

    def __init__(
        self, board: str, shards: Sequence[Backend], join: Callable[[int], None], is_fixed: bool = True
    ) -> None:
        self._board = board
        self.random = random.Random()
        self.health = Health()
        self.absence = Absence(join)
        self._misplaced: dict[str, int] = {}
        self.roster = Roster(self, board, is_fixed)
        self.arrange(dict(enumerate(shards)), ShardMap(1, Placement.of(len(shards))))

    # -- which -----------------------------------------------------------------------------------------------------

    def arrange(self, named: Mapping[int, Backend], map: ShardMap) -> None:
        """Learn which shards this client names stores for."""
        self.named = dict(named)
        self._set_map(map)

    def learn(self, map: ShardMap) -> None:
        """Learn how the shards stand by now; a map that is no newer is left alone."""
        if map.epoch > self.map.epoch:
            for number in set(self.named).difference(map.now.present):
                shard = self.named.pop(number)
                if number not in self.absence:
                    with suppress(BoardUnavailable):
                        shard.close()
            self._set_map(map)

    def _set_map(self, map: ShardMap) -> None:
        states = enumerate(map.now.states)
        self.shards = [
            self.named.get(number) or missing(self._board, state is ShardState.GONE) for number, state in states
        ]
        self.map = map
        # A gone shard has no jobs, so that these are found again.
        self._misplaced = {uuid: number for uuid, number in self._misplaced.items() if number in self.present}
        #: The shards that can have jobs, and those that take what can go anywhere, of which this client names stores.
        self.served = [number for number in map.now.present if number in self.named]
        self.health.served = frozenset(self.served)
        taking = [number for number in sorted(map.now.taking) if number in self.named]
        self.taking = [number for number in taking if map.following is None or number in map.following.taking] or taking

    @property
    def count(self) -> int:
        """How many numbers of shards were ever given."""
        return len(self.shards)

    @property
    def present(self) -> tuple[int, ...]:
        """The shards of the board, also those that this client names no store for."""
        return self.map.now.present

    # -- where -----------------------------------------------------------------------------------------------------

    def _number_in(self, uuid: str) -> int | None:
        number = placement.number_in(uuid, self.count)
        return None if number is None or self.map.now.states[number] is ShardState.GONE else number

    def hint(self, uuid: str) -> int | None:
        """Return where a job is, as far as this client knows; None if only a search can tell."""
        found = self._misplaced.get(uuid)
        return self._number_in(uuid) if found is None else found

    def home(self, uuid: str) -> int:
        """Return where a job is looked for first."""
        found = self.hint(uuid)
        return self.map.now.place(uuid) if found is None else found

    def remember(self, uuid: str, number: int) -> None:
        """Learn where a job is; only what its uuid does not say is kept."""
        if self.home(uuid) == number:
            return
        if len(self._misplaced) >= _MAX_MISPLACED:
            # They are found again. No lock, which a forked child might never get.
            self._misplaced = {}
        self._misplaced[uuid] = number

    def locate(self, uuids: Sequence[str]) -> list[int]:
        """Return where jobs are; those that only a search finds are searched for, and what is nowhere is at home."""
        unknown = [uuid for uuid in uuids if self.hint(uuid) is None]
        if unknown:
            self.read(unknown)
        return [self.home(uuid) for uuid in uuids]

    # -- requests --------------------------------------------------------------------------------------------------

    def ask(self, number: int, send: Callable[[Backend], T]) -> T:
        """Send a request to one shard; a failure says which one it is."""
        try:
            return self._ask(number, send)
        except _ANSWERS:
            raise
        except BoardUnavailable as error:
            raise named({number: error}) from error

    def ask_needed(self, number: int, send: Callable[[Backend], T]) -> T:
        """Send a read to one shard, in whose place no other one can answer; a failure says what to do."""
        try:
            return self.ask(number, send)
        except BoardUnavailable as error:
            raise _needed(error) from error

    def _ask(self, number: int, send: Callable[[Backend], T]) -> T:
        """Send a request to one shard. One that did not answer the last time gets less time to."""
        try:
            with time_limit(DOUBTFUL_TIMEOUT if self.health.is_doubtful(number) else math.inf):
                if number in self.absence:
                    self.absence.end(number)
                answer = send(self.shards[number])
        except BoardUnavailable as error:
            if not isinstance(error, _ANSWERS):
                self.health.failed(number)
            if (reads := partial_reads()) is not None:
                reads.leave_out(number, str(error))
            raise
        self.health.answered(number)
        return answer

    def now(self) -> float:
        """Return the moment by the clock of a shard that answers.

        :raises BoardUnavailable: none does.
        """
        return next(self.ask_able(self.health.able(), lambda shard: shard.now()))[1]

    def ask_able(self, numbers: Iterable[int], send: Callable[[Backend], T]) -> Iterator[tuple[int, T]]:
        """Yield the answers of these shards, without those that don't answer.

        :raises BoardUnavailable: none does.
        """
        failures: list[BoardUnavailable] = []
        answered = False
        for number in numbers:
            try:
                answer = self.ask(number, send)
            except BoardUnavailable as error:
                failures.append(error)
                continue
            answered = True
            yield number, answer
        if failures and not answered:
            raise failures[0]

    def passing_over_down(self) -> PartialReads:
        """Return what lets reads go without the shards that are down, and without those that don't answer."""
        reads, able = PartialReads(), self.health.able()
        for number in self.present:
            if number not in able:
                reads.leave_out(number, "it did not answer lately")
        return reads

    def everywhere(self, send: Callable[[Backend], T], *, changes: bool = False) -> dict[int, T]:
        """Return the answers of all shards by their numbers; within ``PartialReads`` those of the ones that answer.

        :param changes: whether the request may have changed something on those that answered.
        :raises BoardUnavailable: one does not answer; within ``PartialReads``, none does.
        """
        reads = None if changes else partial_reads()
        numbers = self.present if reads is None else reads.among(self.present) or self.present
        answers, failures = self._ask_each(dict.fromkeys(numbers, send))
        if failures and (reads is None or not answers):
            failure = _failure_of(failures, changed=changes and bool(answers))
            raise failure if changes else _needed(failure) from failure.__cause__
        return answers

    def split(
        self,
        numbers: Iterable[int],
        items: Sequence[Item],
        send: Callable[[Backend, list[Item]], Sequence[T]],
        *,
        changes: bool = False,
    ) -> list[T]:
        """Send each item to its shard, one request for each shard, and return the answers in the order of the items.

        :raises ReplyLost: a shard has failed, and others may have changed something.
        """
        groups: dict[int, list[int]] = {}
        for at, number in enumerate(numbers):
            groups.setdefault(number, []).append(at)
        found, failures = self._ask_each(
            {number: partial(_send_some, send, [items[at] for at in group]) for number, group in groups.items()}
        )
        if failures:
            raise _failure_of(failures, changed=changes and bool(found))
        answers = {
            at: answer for number, group in groups.items() for at, answer in zip(group, found[number], strict=True)
        }
        return [answers[at] for at in range(len(items))]

    def _ask_each(
        self, requests: Mapping[int, Callable[[Backend], T]]
    ) -> tuple[dict[int, T], dict[int, BoardUnavailable]]:
        """Send each shard its request, also if others fail; return the answers, and the failures."""
        answers: dict[int, T] = {}
        failures: dict[int, BoardUnavailable] = {}
        for number, send in requests.items():
            try:
                answers[number] = self._ask(number, send)
            except BoardUnavailable as error:
                failures[number] = error
        return answers, failures

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        """Return jobs; what is not at home is looked for on all other shards, in one request to each."""
        if list(uuids) == [NO_UUID]:
            return next(self.ask_able(self.health.able(), lambda shard: shard.jobs.read(uuids)))[1]
        numbers = [self.home(uuid) for uuid in uuids]
        rows = self.split(numbers, uuids, lambda shard, some: shard.jobs.read(some))
        missing = {uuid: number for uuid, number, row in zip(uuids, numbers, rows, strict=True) if row is None}
        found = self._search(missing) if missing else {}
        return [found.get(uuid) if row is None else row for uuid, row in zip(uuids, rows, strict=True)]

    def _search(self, homes: dict[str, int]) -> dict[str, JobRow]:
        """Look for jobs everywhere but at home."""
        found: dict[str, JobRow] = {}
        for number in self.present:
            wanted = [uuid for uuid, home in homes.items() if home != number and uuid not in found]
            rows = self.ask(number, lambda shard, wanted=wanted: shard.jobs.read(wanted)) if wanted else []  # type: ignore[misc]
            for row in rows:
                if row is not None:
                    found[row.uuid] = row
                    self.remember(row.uuid, number)
        return found

    def change(
        self,
        items: Sequence[Item],
        uuid_of: Callable[[Item], str],
        send: Callable[[Backend, list[Item]], Sequence[T]],
        is_absent: Callable[[T], bool] = lambda answer: answer in _ABSENT,
        *,
        repeats_are_alike: bool = False,
    ) -> list[T]:
        """Send each item to the shard of its job; what is not there goes to where a search finds it.

        :param is_absent: whether an answer may mean that the shard does not have the job.
        :param repeats_are_alike: whether a repeat gets the same answer, also from a shard that has made the change.
        """
        uuids = [uuid_of(item) for item in items]
        numbers = [self.home(uuid) for uuid in uuids]
        answers = self.split(numbers, items, send, changes=not repeats_are_alike)
        absent = [at for at, answer in enumerate(answers) if is_absent(answer)]
        if absent:
            with after_a_change(lambda: len(absent) < len(items)):
                self.read([uuids[at] for at in absent])
                moved = [at for at in absent if self.home(uuids[at]) != numbers[at]]
                again = self.split(
                    [self.home(uuids[at]) for at in moved], [items[at] for at in moved], send, changes=True
                )
            for at, answer in zip(moved, again, strict=True):
                answers[at] = answer
        return answers

    def ask_of(self, uuid: str, send: Callable[[Backend], T]) -> T:
        """Send a request to the shard of a job."""
        return self.ask(self.locate([uuid])[0], send)


def named(failures: Mapping[int, BoardUnavailable]) -> BoardUnavailable:
    """Return the first of these failures, which says of which shards there are any."""
    first = next(iter(failures.values()))
    return restated(first, f"shard{'s' if len(failures) > 1 else ''} {', '.join(map(str, failures))}: {first}")


def _needed(failure: BoardUnavailable) -> BoardUnavailable:
    """Return the failure of a read that no other shard can answer, which says what to do."""
    return restated(failure, f"{failure}; no other shard can answer this, see: jobboard shards")


def _send_some(send: Callable[[Backend, list[Item]], Sequence[T]], items: list[Item], shard: Backend) -> Sequence[T]:
    return send(shard, items)


def _failure_of(failures: Mapping[int, BoardUnavailable], changed: bool) -> BoardUnavailable:
    """Return the error of a request that has failed on some shards."""
    lost = {number: error for number, error in failures.items() if isinstance(error, ReplyLost)}
    failure = named(lost or failures)
    failure.__cause__ = next(iter((lost or failures).values()))
    if lost or not changed:
        return failure
    reply = ReplyLost(f"a part of this took effect, and a part did not: {failure}")
    reply.is_partial, reply.__cause__ = True, failure
    return reply


def chain_pages(
    fleet: Fleet, cursor: Any, size: int, read: Callable[[Backend, Any, int], tuple[list[T], Any]]
) -> tuple[list[T], tuple[int, Any] | None]:
    """Return the next things, shard after shard, and where the next page begins; None is the end.

    :param cursor: a shard's number, and its own cursor.
    :param read: returns a page of one shard, and its cursor.
    """
    number, inner = (0, None) if cursor is None else cursor
    found: list[T] = []
    for each in range(number, fleet.count):
        if each not in fleet.present:
            number += 1
            continue
        most, place = size - len(found), inner
        rows, inner = fleet.ask_needed(each, lambda shard, most=most, place=place: read(shard, place, most))  # type: ignore[misc]
        found += rows
        if inner is not None:
            break
        number += 1
        if len(found) >= size:
            break
    return found, None if number == fleet.count else (number, inner)
