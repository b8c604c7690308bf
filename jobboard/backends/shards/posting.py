"""Where postings go, and what can't be posted together on a board of shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jobboard.backends import follow_ups
from jobboard.backends.rows import NewJob, Posted
from jobboard.backends.shards import placement
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.loads import Loads
from jobboard.errors import InvalidPosting

_ADVICE = "give all of them one lane"


class Posting:
    """The primitive ``post``: a batch is posted whole on each shard that it concerns."""

    def __init__(self, fleet: Fleet, loads: Loads) -> None:
        self._fleet, self._loads = fleet, loads

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        numbers = self._places(rows)
        answers = self._fleet.split(numbers, rows, lambda shard, some: shard.jobs.post(some), changes=True)
        self._loads.posted(Counter(numbers))
        for new, number, answer in zip(rows, numbers, answers, strict=True):
            self._fleet.remember(new.uuid, number)
            self._fleet.remember(answer.row.uuid, number)
        return answers

    def _places(self, rows: Sequence[NewJob]) -> list[int]:
        """Return where each goes.

        :raises InvalidPosting: it can't go where the others of its graph are.
        """
        if any(new.parents or new.graph is not None for new in rows):
            number = self._place_of_graph(rows)
            check_beside(rows, number, self._fleet.count)
            return [number] * len(rows)
        numbers = [self._place(new) for new in rows]
        for new, number in zip(rows, numbers, strict=True):
            _check_follow_ups(new, number, self._fleet.count)
        return numbers

    def _place(self, new: NewJob) -> int:
        anchor = placement.anchor_of(new, self._fleet.count)
        return self._fleet.home(new.uuid) if anchor is None else anchor

    def _place_of_graph(self, rows: Sequence[NewJob]) -> int:
        fleet = self._fleet
        parents = parents_elsewhere(rows)
        graph = next((new.graph for new in rows if new.graph is not None), None)
        if graph is not None:
            number = fleet.home(graph)
        elif parents:
            number = fleet.locate(parents[:1])[0]
        else:
            anchors = (placement.anchor_of(new, fleet.count) for new in rows)
            anchor = next((each for each in anchors if each is not None), None)
            number = fleet.home(rows[0].uuid) if anchor is None else anchor
        check_parents(fleet, parents, number)
        return number


def parents_elsewhere(rows: Sequence[NewJob]) -> list[str]:
    """Return the parents that are not posted in the same step."""
    own = {new.uuid for new in rows}
    return list(dict.fromkeys(parent for new in rows for parent in new.parents if parent not in own))


def check_parents(fleet: Fleet, parents: Sequence[str], number: int) -> None:
    """Refuse a parent that is on another shard than its child; one that is nowhere is left to the store.

    :raises InvalidPosting: one is.
    """
    elsewhere = [each for each, place in zip(parents, fleet.locate(parents), strict=True) if place != number]
    found = next((row for row in fleet.read(elsewhere) if row is not None), None) if elsewhere else None
    if found is not None and fleet.home(found.uuid) != number:
        raise InvalidPosting(
            f"job {found.uuid} is on shard {fleet.home(found.uuid)}, and a job on shard {number} can't wait for it; "
            f"post both in one call, or {_ADVICE}",
            path="after",
        )


def check_beside(rows: Sequence[NewJob], number: int, count: int) -> None:
    """Check what is posted in one step on a shard: a lane or a key of another shard would count nothing there.

    :raises InvalidPosting: a posting has one.
    """
    for new in rows:
        anchor = placement.anchor_of(new, count)
        if anchor is not None and anchor != number:
            has_lane = new.ties is not None and new.ties.lane is not None
            what = f"the lane {new.ties.lane!r}" if has_lane and new.ties else f"the key {new.key!r}"
            raise InvalidPosting(
                f"{what} of job {new.name!r} belongs to shard {anchor}, and what it is posted with is on shard "
                f"{number}; {_ADVICE}",
                path="lane" if has_lane else "key",
            )
        _check_follow_ups(new, number, count)


def _check_follow_ups(new: NewJob, number: int, count: int) -> None:
    packed = () if new.ties is None else (new.ties.on_trashed, new.ties.on_complete)
    for each in packed:
        if each is not None:
            # What can't be read the store tells of when its time comes.
            try:
                follow_up = follow_ups.unpack(each, new.uuid, 0)
            except ValueError:
                continue
            check_beside([follow_up], number, count)
