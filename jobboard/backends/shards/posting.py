"""Where postings go, and what can't be posted together on a board of shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from jobboard.backends import follow_ups
from jobboard.backends.rows import NewJob, Posted, Ties
from jobboard.backends.shards import placement
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.loads import Loads
from jobboard.backends.shards.roster import Roster
from jobboard.backends.shards.shard_map import ShardState
from jobboard.errors import BoardUnavailable, InvalidPosting, ReplyLost

_ADVICE = "give all of them one lane as they are posted"

#: Of how many postings a client knows that they may have arrived.
_MAX_UNCERTAIN = 10_000


class Posting:
    """The primitive ``post``: a batch is posted whole on each shard that it concerns."""

    def __init__(self, fleet: Fleet, loads: Loads) -> None:
        self._fleet, self._roster, self._loads = fleet, fleet.roster, loads
        #: Of uuids that may have arrived, since the reply was lost, the shard.
        self._uncertain: dict[str, int] = {}

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        numbers = self._places(rows)
        self._check_leaving(numbers)
        if self._uncertain:
            self._check_uncertain(rows, numbers)
        try:
            with self._roster.limit():
                answers = self._fleet.split(numbers, rows, lambda shard, some: shard.jobs.post(some), changes=True)
        except ReplyLost:
            if len(self._uncertain) >= _MAX_UNCERTAIN:
                self._uncertain = {}
            self._uncertain.update((new.uuid, number) for new, number in zip(rows, numbers, strict=True))
            raise
        self._loads.posted(Counter(numbers))
        for new, number, answer in zip(rows, numbers, answers, strict=True):
            self._fleet.remember(new.uuid, number)
            self._fleet.remember(answer.row.uuid, number)
        return answers

    def _check_leaving(self, numbers: Sequence[int]) -> None:
        """Refuse what would go to a shard that is being removed: only what is beside its jobs goes there still.

        :raises BoardUnavailable: something would.
        """
        following = self._fleet.map.following
        for number in numbers:
            if following is not None and following.states[number] is ShardState.GONE:
                raise BoardUnavailable(f"shard {number} is being removed, and a posting belongs there; try again")

    def _check_uncertain(self, rows: Sequence[NewJob], numbers: Sequence[int]) -> None:
        """Refuse a repeat whose place is another shard by now: it may have arrived on the first one.

        :raises ReplyLost: there is one.
        """
        moved = [
            new.uuid
            for new, number in zip(rows, numbers, strict=True)
            if self._uncertain.get(new.uuid, number) != number
        ]
        if moved:
            raise ReplyLost(f"whether job {moved[0]} was posted is unknown: its key or lane was moved meanwhile")

    def _places(self, rows: Sequence[NewJob]) -> list[int]:
        """Return where each goes.

        :raises InvalidPosting: it can't go where the others of its graph are.
        """
        self._roster.fresh()
        if any(new.parents or new.graph is not None for new in rows):
            number, beside = self._place_of_graph(rows)
            check_beside(rows, number, beside, self._roster)
            return [number] * len(rows)
        numbers = self._places_of(rows)
        for new, number in zip(rows, numbers, strict=True):
            _check_follow_ups(new, number, self._roster)
        return numbers

    def _places_of(self, rows: Sequence[NewJob]) -> list[int]:
        texts = [self._text_of(new) for new in rows]
        found = self._roster.places([text for text in texts if text is not None])
        placed = iter(found)
        return [self._place(new, None if text is None else next(placed)) for new, text in zip(rows, texts, strict=True)]

    def _text_of(self, new: NewJob) -> str | None:
        """Return what a posting goes by; None: by the number in its uuid."""
        text = placement.text_of_posting(new)
        return new.uuid if text is None and self._fleet.hint(new.uuid) is None else text

    def _place(self, new: NewJob, place: int | None) -> int:
        fleet = self._fleet
        map, number = fleet.map, fleet.hint(new.uuid)
        if map.epoch > 1 and number is None:
            # A uuid of the user's own may be on the shard where it belonged once.
            fleet.read([new.uuid])
            number = fleet.hint(new.uuid)
            place = place if number is None else number
        if place is None and number not in map.now.taking and new.uuid not in self._uncertain:
            # Its uuid was made before its shard was drained.
            place = self._loads.choose()
        return place if place is not None else fleet.home(new.uuid)

    def _place_of_graph(self, rows: Sequence[NewJob]) -> tuple[int, str]:
        """Return where all of them go, and what is there."""
        fleet, beside = self._fleet, "what it is posted with"
        parents = parents_elsewhere(rows)
        graph = next((new.graph for new in rows if new.graph is not None), None)
        if graph is not None:
            number = fleet.home(graph)
        elif parents:
            first = next(iter(parents))
            number, beside = fleet.locate([first])[0], f"job {first}, for which {parents[first]} waits,"
        else:
            text = next(filter(None, map(placement.text_of_posting, rows)), None)
            number = fleet.home(rows[0].uuid) if text is None else self._roster.places([text])[0]
        check_parents(fleet, parents, number)
        return number, beside


def parents_elsewhere(rows: Sequence[NewJob]) -> dict[str, str]:
    """Return the parents that are not posted in the same step, and of each the first job that waits for it."""
    own = {new.uuid for new in rows}
    found: dict[str, str] = {}
    for new in rows:
        for parent in new.parents:
            if parent not in own:
                found.setdefault(parent, f"{new.uuid} ({new.name})")
    return found


def check_parents(fleet: Fleet, parents: Mapping[str, str], number: int) -> None:
    """Refuse a parent that is on another shard than its child; one that is nowhere is left to the store.

    :param parents: of each the job that is to wait for it.
    :raises InvalidPosting: one is.
    """
    places = fleet.locate(list(parents))
    elsewhere = [each for each, place in zip(parents, places, strict=True) if place != number]
    found = next((row for row in fleet.read(elsewhere) if row is not None), None) if elsewhere else None
    if found is not None and fleet.home(found.uuid) != number:
        raise InvalidPosting(
            f"job {parents[found.uuid]} belongs to shard {number} and can't wait for job {found.uuid} ({found.name}), "
            f"which is on shard {fleet.home(found.uuid)}: post both in one call of post_many, or {_ADVICE}",
            path="after",
        )


def check_beside(rows: Sequence[NewJob], number: int, beside: str, roster: Roster) -> None:
    """Check what is posted in one step on a shard: a lane or a key of another shard would count nothing there.

    :param beside: what else is on that shard.
    :raises InvalidPosting: a posting has one.
    """
    for new in rows:
        text = placement.text_of_posting(new)
        if text is not None and (anchor := roster.places([text])[0]) != number:
            has_lane = new.ties is not None and new.ties.lane is not None
            what = f"the lane {new.ties.lane!r}" if has_lane and new.ties else f"the key {new.key!r}"
            raise InvalidPosting(
                f"{what} of job {new.name!r} belongs to shard {anchor}, and {beside} is on shard {number}; {_ADVICE}",
                path="lane" if has_lane else "key",
            )
        _check_follow_ups(new, number, roster)


def _check_follow_ups(new: NewJob, number: int, roster: Roster) -> None:
    for follow_up in postings_after(new.uuid, new.ties):
        check_beside([follow_up], number, f"job {new.uuid} ({new.name}), which it follows,", roster)


def postings_after(uuid: str, ties: Ties | None) -> Iterator[NewJob]:
    """Yield what follows the ends of a job; what can't be read the store tells of when its time comes."""
    for packed in () if ties is None else (ties.on_trashed, ties.on_complete):
        if packed is not None:
            with suppress(ValueError):
                yield follow_ups.unpack(packed, uuid, 0)
