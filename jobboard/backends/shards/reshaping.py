"""What an operator does to the shards of a board while programs use it. Every command may be killed, and repeated.

A change of places has two steps: a map says what will hold, and what it moves waits from then on; when every client
must have seen that (``roster.VALID``), what is live is held where it is, the schedules are moved, and a second map says
what holds now. Each map is written to one shard after the other. A repeated command first writes the latest one
everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack

from jobboard.backends.base import Backend
from jobboard.backends.rows import Verdict
from jobboard.backends.schedule_rows import ScheduleStep
from jobboard.backends.shards import roster, table
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.ledger import read_from
from jobboard.backends.shards.leftovers import leftovers, schedules_on, texts_on
from jobboard.backends.shards.placement import MAX_SHARDS, text_of_schedule
from jobboard.backends.shards.shard_map import Placement, ShardMap, ShardState, digest
from jobboard.backends.shards.shares import share_of
from jobboard.errors import JobBoardError, NotFound, NotSupported
from jobboard.validation import new_uuid

#: Seconds that a command waits beyond those for which a client goes by a map.
_MARGIN = 0.5
#: For how many seconds keys and lanes that are always in use wait, so that they become free; how often in a command.
_PRESS_TIME, _MAX_PRESSES = 15.0, 3
#: Seconds between two looks at a shard that is being drained, and two looks at what it holds.
_LOOK_INTERVAL, _PASS_INTERVAL = 0.5, 5.0

States = tuple[ShardState, ...]


class Reshaping:
    """Adds, opens, drains and removes shards.

    :param tell: is told what is being done, in sentences.
    """

    def __init__(self, board: str, fleet: Fleet, tell: Callable[[str], object] = lambda _: None) -> None:
        self._board, self._fleet, self._tell = board, fleet, tell

    # -- commands --------------------------------------------------------------------------------------------------

    def add(self, store: Backend, timeout: float) -> int:
        """Make a store, which is not open yet, a shard of the board, and return its number."""
        self._check_changeable()
        with ExitStack() as opened:
            store.open(timeout)
            opened.callback(store.close)
            return self._add(store)

    def _add(self, store: Backend) -> int:
        there = table.read(self._board, store)
        known = None if there is None or self._is_gone(there.number) else there.number
        map = self._catch_up({} if known is None else {known: store})
        if known is None:
            map, known = self._enlist(map, store)
        elif map.now.states[known] is not ShardState.ADDED:
            raise JobBoardError(f"this store is shard {known} of board {self._board!r} already")
        self._check_all_named(map, known)
        self._copy_settings(store)
        self._write(map, {known: store})
        self._tell(f"shard {known} is added; waiting for {self._wait_time:.0f} s, until every program knows it")
        time.sleep(self._wait_time)
        # Whoever did not know the shard has set nothing on it.
        self._copy_settings(store)
        return known

    def _is_gone(self, number: int) -> bool:
        states = self._fleet.map.now.states
        return number < len(states) and states[number] is ShardState.GONE

    def _enlist(self, map: ShardMap, store: Backend) -> tuple[ShardMap, int]:
        """Give a new store its number; one that an interrupted command has given it stays."""
        left = leftovers(store)
        if left:
            raise JobBoardError(f"the new store has a board {self._board!r} already, with {', '.join(left)}")
        if len(map.now.states) >= MAX_SHARDS:
            raise JobBoardError(f"board {self._board!r} has had {MAX_SHARDS} shards, which is the most")
        mark = table.mark(self._board, store)
        if map.newest != mark:
            map = map.add(mark)
        return map, len(map.now.states) - 1

    def _copy_settings(self, store: Backend) -> None:
        """Let a new shard keep the limits and the pauses of the board."""
        self._check_limits()
        first = self._fleet.present[0]
        there = {row.key: row.version for row in store.limits.all()}
        names = self._names_with_slots()
        for row in self._fleet.ask(first, lambda shard: shard.limits.all()):
            if row.limit.name in names:
                # It gets a slot as others do.
                if row.key not in there:
                    store.limits.put(share_of(row, new_uuid(), 0), None)
            elif there.get(row.key) != row.version:
                store.limits.put(row, there.get(row.key))
        for pause in self._fleet.ask(first, lambda shard: shard.maintenance.pauses()):
            store.maintenance.pause(pause.name, pause.by, pause.reason)

    def open(self, number: int) -> None:
        """Let keys and lanes go to a shard that was added, or one that is being drained."""
        states = self._states(number)
        if states[number] is not ShardState.OPEN:
            self._change(_with(states, number, ShardState.OPEN))

    def drain(self, number: int, seconds: float) -> list[str]:
        """Let a shard run empty for at most so many seconds; return what is left on it.

        Keys and lanes that are in use stay until they are not. Those that always are wait a few times, for seconds.
        """
        states = self._states(number)
        wanted = _with(states, number, ShardState.DRAINING)
        if ShardState.OPEN not in wanted:
            raise JobBoardError(f"shard {number} is the last open one of board {self._board!r}")
        deadline, presses = time.monotonic() + seconds, 0
        map = self._change(wanted)
        for _ in range(int(seconds / _LOOK_INTERVAL) + 1):
            held = map.now.held.get(number)
            if time.monotonic() >= deadline or not (held or self._is_in_use(number)):
                break
            self._sleep_until_empty(number, min(deadline, time.monotonic() + _PASS_INTERVAL))
            if held:
                map = self._change(wanted)
                if map.now.held.get(number) == held and presses < _MAX_PRESSES:
                    presses += 1
                    self._tell(f"what is always in use on shard {number} waits for up to {_PRESS_TIME:.0f} s")
                    map = self._change(wanted, press=True)
        return self._left_on(number)

    def _sleep_until_empty(self, number: int, deadline: float) -> None:
        for _ in range(int(_PASS_INTERVAL / _LOOK_INTERVAL)):
            if time.monotonic() >= deadline or not self._is_in_use(number):
                return
            time.sleep(_LOOK_INTERVAL)

    def _is_in_use(self, number: int) -> bool:
        return self._fleet.ask(number, lambda shard: shard.jobs.count()) > 0

    def _left_on(self, number: int) -> list[str]:
        return self._fleet.ask(number, leftovers)

    def remove(self, number: int) -> None:
        """Let the board forget a shard on which nothing is left.

        :raises JobBoardError: something is; says what, and what to do.
        """
        states = self._states(number)
        if states[number] is ShardState.GONE:
            return
        if states[number] is not ShardState.DRAINING:
            raise JobBoardError(f"shard {number} is {states[number].value}; drain it first")
        self._check_limits()
        self._check_nothing_left(number, self._left_on(number))
        map = self._change(_with(states, number, ShardState.GONE))
        if map.now.states[number] is not ShardState.GONE:
            self._check_nothing_left(number, self._left_on(number))
            raise JobBoardError(f"something was posted to shard {number} meanwhile; repeat this command")

    def _check_nothing_left(self, number: int, left: list[str]) -> None:
        if left:
            raise JobBoardError(f"shard {number} still has {'; '.join(left)}")

    # -- checks ----------------------------------------------------------------------------------------------------

    def _check_changeable(self) -> None:
        if self._fleet.roster.is_fixed:
            raise NotSupported(
                f"the number of shards of board {self._board!r} is fixed, since they are on one server (shards=N); "
                "only those of shards:// come and go"
            )

    def _check_limits(self) -> None:
        """Refuse to change the number of shards while a limit is divided among them.

        :raises JobBoardError: there is one.
        """
        names = self._names_with_slots()
        for row in self._fleet.ask(self._fleet.present[0], lambda shard: shard.limits.all()):
            if row.limit.name is not None and row.limit.running and row.limit.name not in names:
                raise JobBoardError(
                    f"the limit of jobs named {row.limit.name!r} is divided among the shards: remove it, and set it "
                    "again after this command"
                )

    def _names_with_slots(self) -> set[str]:
        entries = self._fleet.ask(self._fleet.present[0], read_from)
        return {name for name, entry in entries.items() if entry.slots is not None}

    def _check_all_named(self, map: ShardMap, *others: int) -> None:
        lacking = sorted(set(map.now.present).difference(self._fleet.named, others))
        if lacking:
            raise JobBoardError(
                f"name the stores of all shards of board {self._board!r}; shard {lacking[0]} is missing"
            )

    def _states(self, number: int) -> States:
        """Return how the shards stand, once an interrupted command is finished.

        :raises NotFound: there is no such shard.
        """
        self._check_changeable()
        map = self._catch_up()
        self._check_all_named(map)
        if map.following is not None:
            self._tell("finishing what an interrupted command began")
            map = self._finish(map)
        else:
            self._delete_moved_schedules()
        if not 0 <= number < len(map.now.states):
            raise NotFound(f"board {self._board!r} has no shard {number}; see: jobboard shards")
        return map.now.states

    # -- changes ---------------------------------------------------------------------------------------------------

    @property
    def _wait_time(self) -> float:
        return roster.VALID + _MARGIN

    def _catch_up(self, more: Mapping[int, Backend] | None = None) -> ShardMap:
        """Return the latest map, which is on all shards then.

        :param more: a store that this program does not name.
        """
        entries = [self._fleet.ask(number, self._read) for number in self._fleet.named]
        entries += [self._read(shard) for shard in (more or {}).values()]
        map = max((entry.map for entry in entries if entry is not None), key=lambda map: map.epoch)
        if map.epoch > 1:
            self._write(map, more)
        return map

    def _read(self, shard: Backend) -> table.Entry | None:
        return table.read(self._board, shard)

    def _write(self, map: ShardMap, more: Mapping[int, Backend] | None = None) -> None:
        """Write a map on all shards, the one that decides between two commands first."""
        shards = {**self._fleet.named, **(more or {})}
        for number in sorted(shards):
            if number in self._fleet.named:
                self._fleet.ask(number, lambda shard, number=number: table.write(self._board, shard, number, map))  # type: ignore[misc]
            else:
                table.write(self._board, shards[number], number, map)
        self._fleet.learn(map)

    def _change(self, states: States, press: bool = False) -> ShardMap:
        """Let the shards stand so.

        :param press: also what is in use waits, so that it becomes free.
        """
        map = self._fleet.map
        held = {} if press else self._live(map.now, states)
        if (states, held) == (map.now.states, dict(map.now.held)):
            return map
        map = map.begin(Placement(states, held, map.epoch + 1))
        self._write(map)
        return self._finish(map, press)

    def _finish(self, map: ShardMap, press: bool = False) -> ShardMap:
        """End a change: nobody posts any more what it moves once the wait is over."""
        following = map.following
        assert following is not None
        self._tell(f"waiting for {self._wait_time:.0f} s, until every program knows of it")
        time.sleep(self._wait_time)
        if press:
            self._wait_until_free(map.now, following.states)
        states = self._without_used_ones(map.now, following.states)
        held = _merged(following.held, self._live(map.now, states))
        placement = Placement(states, held, map.epoch + 1)
        self._copy_schedules(map.now, placement)
        map = map.end(placement)
        self._write(map)
        self._delete_moved_schedules()
        return map

    def _wait_until_free(self, now: Placement, states: States) -> None:
        deadline = time.monotonic() + _PRESS_TIME
        for _ in range(int(_PRESS_TIME / _LOOK_INTERVAL)):
            if time.monotonic() >= deadline or not self._live(now, states):
                return
            time.sleep(_LOOK_INTERVAL)

    def _without_used_ones(self, now: Placement, states: States) -> States:
        """Return the states without those that are to be gone, and got something meanwhile."""
        for number, state in enumerate(states):
            is_leaving = state is ShardState.GONE and now.states[number] is not ShardState.GONE
            if is_leaving and self._left_on(number):
                states = _with(states, number, now.states[number])
        return states

    def _live(self, now: Placement, states: States) -> dict[int, frozenset[bytes]]:
        """Return what is in use on each shard, belongs there now, and would belong elsewhere."""
        found: dict[int, frozenset[bytes]] = {}
        after = Placement(states)
        for number in self._affected(now, states):
            texts = {
                digest(text)
                for text in self._fleet.ask(number, lambda shard: set(texts_on(shard)))
                if now.place(text) == number != after.free_place(text)
            }
            if texts:
                found[number] = frozenset(texts)
        return found

    def _affected(self, now: Placement, states: States) -> Iterable[int]:
        """Return the shards that something moves away from."""
        pairs = enumerate(zip(now.states, states, strict=True))
        is_opened = any(after is ShardState.OPEN and before is not after for _, (before, after) in pairs)
        for number in now.present:
            stays = states[number] is ShardState.OPEN and number not in now.held
            if states[number] is not ShardState.GONE and (is_opened or not stays):
                yield number

    def _copy_schedules(self, now: Placement, after: Placement) -> None:
        """Write each schedule that belongs elsewhere there; nobody changes it meanwhile."""
        for number in self._affected(now, after.states):
            for row in self._fleet.ask(number, schedules_on):
                text = text_of_schedule(row.id)
                place = after.free_place(text)
                if now.place(text) == number != place:
                    self._put_schedule(place, ScheduleStep(row.id, None, row))

    def _put_schedule(self, number: int, step: ScheduleStep) -> None:
        (there,) = self._fleet.ask(number, lambda shard: shard.schedules.read([step.id]))
        wanted = ScheduleStep(step.id, None if there is None else there.version, step.row)
        (verdict,) = self._fleet.ask(number, lambda shard: shard.schedules.step([wanted]))
        if verdict is Verdict.LOST:
            raise JobBoardError(f"schedule {step.id!r} was changed while it was moved; repeat this command")

    def _delete_moved_schedules(self) -> None:
        """Delete what schedules have left where they were, as soon as nobody reads them there."""
        now = self._fleet.map.now
        rows = [(number, row) for number in now.present for row in self._fleet.ask(number, schedules_on)]
        moved = [(number, row) for number, row in rows if now.place(text_of_schedule(row.id)) != number]
        if moved:
            self._tell(
                f"{len(moved)} schedules are moved; waiting for {self._wait_time:.0f} s, until all read them there"
            )
            time.sleep(self._wait_time)
        for number, row in moved:
            step = ScheduleStep(row.id, row.version, None)
            self._fleet.ask(number, lambda shard, step=step: shard.schedules.step([step]))  # type: ignore[misc]


def _with(states: States, number: int, state: ShardState) -> States:
    return (*states[:number], state, *states[number + 1 :])


def _merged(
    first: Mapping[int, frozenset[bytes]], second: Mapping[int, frozenset[bytes]]
) -> dict[int, frozenset[bytes]]:
    return {number: first.get(number, frozenset()) | second.get(number, frozenset()) for number in {**first, **second}}
