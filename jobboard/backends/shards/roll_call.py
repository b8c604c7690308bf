"""Which store of a program's list is which shard: by what they know themselves, and by their order. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobboard.backends.shards.shard_map import Placement, ShardMap, ShardState
from jobboard.backends.shards.table import Entry
from jobboard.errors import RequestRefused


@dataclass(frozen=True)
class RollCall:
    """What a list of stores was found to be.

    :ivar numbers: of each store in the list, the number of its shard.
    :ivar strangers: those that must be told which shard they are.
    """

    map: ShardMap
    numbers: tuple[int, ...]
    strangers: tuple[int, ...] = ()


def call_roll(board: str, count: int, found: Mapping[int, Entry | None]) -> RollCall:
    """Return which store is which shard.

    :param count: how many stores the list has.
    :param found: what those that answer know, by their places in the list; None: nothing of this board.
    :raises RequestRefused: the list is not that of the board; says what to do.
    """
    known = {at: entry for at, entry in found.items() if entry is not None}
    map = max((entry.map for entry in known.values()), key=lambda map: map.epoch, default=None)
    map = map or ShardMap(1, Placement.of(count))
    _check_none_is_gone(board, map, known)
    present = map.now.present
    _check_count(board, map, count)
    numbers = present[:count]
    for at, entry in known.items():
        if entry.number != numbers[at]:
            raise RequestRefused(
                f"what is named as shard {numbers[at]} of board {board!r} is its shard {entry.number}; "
                "name the shards in their order"
            )
    strangers = tuple(at for at, entry in found.items() if entry is None)
    if strangers and map.epoch > 1:
        raise RequestRefused(
            f"what is named as shard {numbers[strangers[0]]} of board {board!r} is none of its shards; "
            "'jobboard shards add URI' makes a new store one"
        )
    return RollCall(map, numbers, strangers)


def _check_none_is_gone(board: str, map: ShardMap, known: Mapping[int, Entry]) -> None:
    for at, entry in known.items():
        if map.now.states[entry.number] is ShardState.GONE:
            raise RequestRefused(
                f"store {at + 1} of board {board!r} was its shard {entry.number}, which was removed; take it out of "
                "the list"
            )


def _check_count(board: str, map: ShardMap, count: int) -> None:
    """Check how many stores are named; what was added, and is not open yet, may be missing at the end."""
    present = map.now.present
    missing = [map.now.states[number] for number in present[count:]]
    if count > len(present) or any(state is not ShardState.ADDED for state in missing):
        there = "" if map.epoch == 1 else f" ({', '.join(str(number) for number in present)})"
        advice = "; 'jobboard shards add URI' adds one" if count > len(present) else "; name all of them"
        raise RequestRefused(
            f"board {board!r} has {len(present)} shard{'s' if len(present) > 1 else ''}{there}, not {count}{advice}"
        )
