"""One board over several backends, each of which keeps a part of its jobs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities, Waiter
from jobboard.backends.findings import Migration, Persistence, Shard, Shortage
from jobboard.backends.lane_rows import NameShare
from jobboard.backends.loading import backend_at
from jobboard.backends.roles import join_jobs
from jobboard.backends.shards import placement, table
from jobboard.backends.shards.books import Books
from jobboard.backends.shards.claims import Claims
from jobboard.backends.shards.edges import Edges
from jobboard.backends.shards.entities import Entities
from jobboard.backends.shards.fleet import DOUBTFUL_TIMEOUT, Fleet, named
from jobboard.backends.shards.homes import Homes
from jobboard.backends.shards.jobs import Jobs
from jobboard.backends.shards.ledger import Ledger
from jobboard.backends.shards.limits import Limits
from jobboard.backends.shards.listening import Listening
from jobboard.backends.shards.loads import Loads
from jobboard.backends.shards.maintenance import Maintenance
from jobboard.backends.shards.name_limits import NameLimits
from jobboard.backends.shards.name_shares import NameShares
from jobboard.backends.shards.posting import Posting
from jobboard.backends.shards.reading import Reading
from jobboard.backends.shards.reshaping import Reshaping
from jobboard.backends.shards.roll_call import RollCall, call_roll
from jobboard.backends.shards.schedules import Schedules
from jobboard.backends.shards.steps import Steps
from jobboard.backends.shards.turns import Turns
from jobboard.backends.shards.waiter import ShardsWaiter
from jobboard.errors import BoardUnavailable, NotSupported, RequestRefused
from jobboard.events import EventKind, JobEvent

logger = logging.getLogger("jobboard.backends.shards")

#: Stands among the numbers of shards for what keeps how many there are, where all are on one server.
_HOME = -1
_NO_TRANSACTION = (
    "a board of several stores can't take part in a transaction of one of them; leave connection= out. To post: write "
    "a new uuid in your transaction, and post with uuid=... once it has committed (the cookbook, 'An outbox'). To end "
    "a job: write its uuid beside the effect, in that transaction (the guide 'Exactly-once effects'). Or keep such "
    "jobs on a board of that store alone"
)
#: What a store says about what it keeps, the worst first.
_LEAST_KEPT = (False, None, True)


def _uris(value: Any) -> list[str]:
    """Return URIs given as a list, or one of them as text; none is repeated, since it may have a password."""
    found = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(uri, str) for uri in found):
        raise ValueError("must be a list of URIs")
    return found


class ShardsBackend(Backend):
    """``shards://?uri=sqlite:///a.db&uri=sqlite:///b.db``: a board's jobs, divided among several stores.

    Each keeps a board of this name. Claims, tokens, expiry, order and the atomicity of a batch are each shard's own.
    """

    scheme = "shards"
    options = {"uri": _uris, "uris": _uris}

    def __init__(
        self,
        board: str,
        address: Address,
        *,
        uris: Sequence[str] = (),
        uri: Sequence[str] = (),
        shards: Sequence[Backend] = (),
        home: Backend | None = None,
    ) -> None:
        """Build it over stores at URIs, or over backends of one kind, the number of which ``home`` keeps."""
        super().__init__(board, address)
        #: It is opened first, and closed again: it refuses another number of shards.
        self._home = home
        self._listed = tuple(shards or self._shards_at([*uri, *uris]))
        self._build(self._listed)

    def _shards_at(self, uris: Sequence[str]) -> list[Backend]:
        if not 1 <= len(uris) <= placement.MAX_SHARDS:
            raise ValueError(f"name 1 to {placement.MAX_SHARDS} stores: shards://?uri=URI&uri=URI; got {len(uris)}")
        return [backend_at(self.board, uri) for uri in uris]

    def _build(self, shards: Sequence[Backend]) -> None:
        self.capabilities = _joint_capabilities([shard.capabilities for shard in shards])  # type: ignore[misc]
        self.fleet = fleet = Fleet(self.board, shards, self._join, is_fixed=self._home is not None)
        self._listening: list[Listening] = []
        self.loads = loads = Loads(fleet)
        self._homes = homes = Homes(fleet)
        ledger = Ledger(fleet)
        self.turns = turns = Turns(fleet, ledger, homes)
        self._claims = Claims(fleet, homes, turns)
        self.jobs = join_jobs(Posting(fleet, loads), self._claims, Jobs(fleet, turns), Reading(fleet))
        self.schedules = Schedules(fleet)
        self.limits = limits = Limits(fleet, NameLimits(fleet, ledger, turns))
        self._name_shares = NameShares(fleet, ledger)
        self.edges, self.steps = Edges(fleet), Steps(fleet)
        self.entities, self.books = Entities(fleet, homes), Books(fleet)
        self.maintenance = Maintenance(fleet, limits)

    # -- connection ------------------------------------------------------------------------------------------------

    def exists(self, timeout: float) -> bool | None:
        deadline, count = time.monotonic() + timeout, len(self._listed)
        found = [self._exists_on(shard, _share(deadline, count - at)) for at, shard in enumerate(self._listed)]
        return True if any(found) else None if None in found else False

    def _exists_on(self, shard: Backend, timeout: float) -> bool | None:
        try:
            return shard.exists(timeout)
        except BoardUnavailable:
            # The others may know the board; if not, whoever opens it is told what this one says.
            return None

    def boards(self, timeout: float) -> list[str] | None:
        names = set[str]()
        for at, shard in enumerate(self._listed):
            try:
                found = shard.boards(timeout)
            except BoardUnavailable as error:
                raise named({at: error}) from error
            if found is None:
                return None
            names.update(found)
        return sorted(names)

    def open(self, timeout: float) -> None:
        """Open it also without some of its shards; a new board needs all of them."""
        deadline = time.monotonic() + timeout
        with ExitStack() as opened:
            first = 0 if self._home is None else _HOME
            failures = self._open_parts(range(first, len(self._listed)), deadline, opened)
            began, roll = time.monotonic(), self._call_roll(failures)
            if failures and roll.strangers:
                # Some may have been slow.
                failures = self._open_parts(list(failures), deadline, opened)
                began, roll = time.monotonic(), self._call_roll(failures)
            if failures and roll.strangers:
                raise failures.get(_HOME) or named(failures)
            for at in roll.strangers:
                table.write_first(self.board, self._listed[at], at, len(self._listed))
            opened.pop_all()
        failures.pop(_HOME, None)
        self.fleet.arrange(dict(zip(roll.numbers, self._listed, strict=True)), roll.map)
        self.fleet.roster.was_read(began)
        self._note_absent({roll.numbers[at]: error for at, error in failures.items()})

    def _note_absent(self, failures: Mapping[int, BoardUnavailable]) -> None:
        self.fleet.health.reset()
        self.fleet.absence.begin(failures)
        for number in failures:
            self.fleet.health.failed(number)
        if failures:
            logger.warning("board %r goes on without a part of its jobs: %s", self.board, named(failures))
        lacking = set(self.fleet.present).difference(self.fleet.named)
        if lacking:
            logger.warning(
                "board %r has shards that this program does not name: %s; name their stores, and restart it",
                self.board,
                ", ".join(str(number) for number in sorted(lacking)),
            )

    def _open_parts(self, numbers: Sequence[int], deadline: float, opened: ExitStack) -> dict[int, BoardUnavailable]:
        """Open shards, each in its share of the time, and return why that failed.

        :raises RequestRefused: one answers, and keeps something else than a part of this board.
        """
        failures: dict[int, BoardUnavailable] = {}
        for at, number in enumerate(numbers):
            try:
                self._open_part(number, _share(deadline, len(numbers) - at), opened)
            except RequestRefused:
                raise
            except BoardUnavailable as error:
                failures[number] = error
        return failures

    def _open_part(self, number: int, timeout: float, opened: ExitStack) -> None:
        if number == _HOME and self._home is not None:
            self._home.open(timeout)
            self._home.close()
        else:
            self._listed[number].open(timeout)
            opened.callback(self._listed[number].close)

    def _call_roll(self, failures: Collection[int]) -> RollCall:
        """Return which store is which shard; all are strangers if none answers.

        :raises RequestRefused: they are not those of the board.
        """
        able = {at: shard for at, shard in enumerate(self._listed) if at not in failures}
        found = {at: table.read(self.board, shard) for at, shard in able.items()}
        roll = call_roll(self.board, len(self._listed), found)
        return roll if found else replace(roll, strangers=roll.numbers)

    def _join(self, number: int) -> None:
        """Open a shard that was away when the board was opened, and let it tell those who listen."""
        shard = self.fleet.shards[number]
        shard.open(DOUBTFUL_TIMEOUT)
        try:
            self._check_joining(number, table.read(self.board, shard))
            for listening in list(self._listening):
                listening.begin(number, shard)
        except BaseException:
            shard.close()
            raise

    def _check_joining(self, number: int, there: table.Entry | None) -> None:
        fleet = self.fleet
        if there is None and fleet.map.epoch == 1:
            table.write_first(self.board, fleet.shards[number], number, fleet.count)
            return
        if there is None or there.number != number:
            what = "none of its shards" if there is None else f"its shard {there.number}"
            raise RequestRefused(f"what is named as shard {number} of board {self.board!r} is {what}")
        if there.map.epoch == 1 and there.map.now != fleet.map.now and fleet.map.epoch == 1:
            call_roll(self.board, len(self._listed), {number: there})

    def close(self) -> None:
        with ExitStack() as closing:
            for number, shard in self.fleet.named.items():
                if number not in self.fleet.absence:
                    closing.callback(shard.close)

    def migrate(self, timeout: float) -> Migration:
        made = [shard.migrate(timeout) for shard in self._listed]
        mended = tuple(name for each in made for name in each.mended)
        return Migration(made[0].found, made[0].now, mended)

    def statements_of_migration(self, timeout: float) -> list[str]:
        return [line for shard in self._listed for line in shard.statements_of_migration(timeout)]

    @property
    def connected(self) -> bool:
        return all(shard.connected for shard in self.fleet.named.values())

    def now(self) -> float:
        return self.fleet.now()

    def refresh(self) -> None:
        for _ in self.fleet.ask_able(self.fleet.health.able(), lambda shard: shard.refresh()):
            continue

    def faults(self) -> list[str]:
        told = self.fleet.everywhere(lambda shard: shard.faults())
        return [f"shard {number}: {fault}" for number, faults in told.items() for fault in faults]

    def shortages(self) -> list[Shortage]:
        told = self.fleet.everywhere(lambda shard: shard.shortages())
        return [replace(one, text=f"shard {number}: {one.text}") for number, found in told.items() for one in found]

    def persistence(self) -> Persistence:
        """Return the least of what the shards say; each may differ, since each has its own settings."""
        told = self.fleet.everywhere(lambda shard: shard.persistence())
        number, least = min(told.items(), key=lambda each: _LEAST_KEPT.index(each[1].kept))
        return replace(least, text=f"shard {number}: {least.text}") if least.text else least

    def shards(self) -> list[Shard]:
        return [self._shard(number, state.value) for number, state in enumerate(self.fleet.map.now.states)]

    def _shard(self, number: int, state: str) -> Shard:
        if number not in self.fleet.present:
            return Shard(number, None, state=state)
        try:
            return Shard(number, self.fleet.ask(number, lambda shard: shard.jobs.stats()), state=state)
        except BoardUnavailable as error:
            return Shard(number, None, str(error), state)

    def name_shares(self, uuid: str, name: str, count: int) -> list[NameShare]:
        return self._name_shares.without_room(uuid, name, count)

    def reshaping(self, tell: Callable[[str], object]) -> Reshaping:
        """Return what adds and removes shards of this board.

        :param tell: is told what is being done.
        """
        return Reshaping(self.board, self.fleet, tell)

    def within(self, connection: Any) -> Backend:
        """Refuse it: nobody could tell when such a transaction ends, and whether its shard is there still.

        :raises NotSupported: says what to do.
        """
        raise NotSupported(_NO_TRANSACTION)

    # -- posting ---------------------------------------------------------------------------------------------------

    def new_uuid(self, name: str, key: str | None = None, lane: str | None = None, beside: str | None = None) -> str:
        text = placement.text_of(name, key, lane)
        number = None if text is None else self.fleet.map.now.place(text)
        if beside is not None:
            number = self.fleet.home(beside)
        return placement.new_uuid(self.loads.choose() if number is None else number)

    # -- waiting and events ----------------------------------------------------------------------------------------

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return ShardsWaiter(self.fleet, self._homes, names, self._claims, self.turns)

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        listening = Listening(self.fleet, tell, kinds)
        self._listening.append(listening)
        try:
            for number, shard in list(self.fleet.named.items()):
                if number not in self.fleet.absence:
                    listening.begin(number, shard)
        except BaseException:
            self._end(listening)
            raise
        return partial(self._end, listening)

    def _end(self, listening: Listening) -> None:
        with suppress(ValueError):
            self._listening.remove(listening)
        listening.end()


def _share(deadline: float, left: int) -> float:
    """Return the seconds that a shard gets to answer, of the time that ``left`` of them have together."""
    seconds = deadline - time.monotonic()
    return max(0.001, min(seconds, max(DOUBTFUL_TIMEOUT, seconds / left)))


def _joint_capabilities(all_of_them: Sequence[Capabilities]) -> Capabilities:
    """Return what all shards can do."""

    def least(name: str) -> Any:
        return min(getattr(each, name) for each in all_of_them)

    return Capabilities(
        processes=least("processes"),
        durable=least("durable"),
        expiry="session" if any(each.expiry == "session" for each in all_of_them) else "time",
        clock="client" if any(each.clock == "client" for each in all_of_them) else "store",
        largest_batch=least("largest_batch"),
        largest_step=least("largest_step"),
        ties=least("ties"),
        edges=least("edges"),
        largest_graph=least("largest_graph"),
        sharded=True,
    )
