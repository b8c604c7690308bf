"""Which shards a board has, how each stands, and where keys and lanes belong while shards come and go. Pure.

A key, a lane, a schedule or a uuid of the user's own is a text here (:mod:`jobboard.backends.shards.placement`).
Its place is the rendezvous hash over the open shards. What was live on its place as another one was decided is *held*
there.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

from jobboard.backends.shards.placement import rendezvous


class ShardState(str, enum.Enum):
    """How a shard stands."""

    ADDED = "added"  # it takes what can go anywhere; programs may lack it
    OPEN = "open"  # it takes keys and lanes too; all programs name it
    DRAINING = "draining"  # it takes nothing new but what must be beside its jobs
    GONE = "gone"  # nothing is left on it; its number is not used again


def digest(text: str) -> bytes:
    """Return what stands for a text that is held. Two of the same would be held together, which does no harm."""
    return blake2b(text.encode(), digest_size=8).digest()


@dataclass(frozen=True)
class Placement:
    """Where things belong: by the states of the shards, except for what a shard holds.

    :ivar held: of a shard, the digests of texts that stay there although their place is another one.
    :ivar tag: the epoch that made it; its ``held`` is stored under that.
    """

    states: tuple[ShardState, ...]
    held: Mapping[int, frozenset[bytes]] = field(default_factory=dict)
    tag: int = 1

    @classmethod
    def of(cls, count: int) -> Placement:
        """Return that of a new board."""
        return cls((ShardState.OPEN,) * count)

    def _numbers(self, *states: ShardState) -> tuple[int, ...]:
        return tuple(number for number, state in enumerate(self.states) if state in states)

    # Every posting asks for some of these, and there may be a thousand shards.

    @cached_property
    def present(self) -> tuple[int, ...]:
        """The shards that are there."""
        return self._numbers(ShardState.ADDED, ShardState.OPEN, ShardState.DRAINING)

    @cached_property
    def taking(self) -> frozenset[int]:
        """The shards that take what can go anywhere."""
        return frozenset(self._numbers(ShardState.ADDED, ShardState.OPEN))

    @cached_property
    def open(self) -> tuple[int, ...]:
        """The shards that take keys and lanes."""
        return self._numbers(ShardState.OPEN)

    def place(self, text: str) -> int:
        """Return the shard of a text."""
        if self.held:
            own = digest(text)
            for number, texts in self.held.items():
                if own in texts:
                    return number
        return self.free_place(text)

    def free_place(self, text: str) -> int:
        """Return the shard of a text that none holds."""
        return rendezvous(text, self.open)


@dataclass(frozen=True)
class ShardMap:
    """What the shards of a board know together.

    :ivar epoch: grows with each change.
    :ivar following: what holds after the present change; until then what it moves waits. None: there is no change.
    :ivar newest: the mark of the store that was added last, by which a repeated command knows it (``table.mark``).
    """

    epoch: int
    now: Placement
    following: Placement | None = None
    newest: str | None = None

    def moves(self, texts: Iterable[str]) -> bool:
        """Whether any of these is being moved just now."""
        new = self.following
        return new is not None and any(self.now.place(text) != new.place(text) for text in texts)

    def begin(self, following: Placement) -> ShardMap:
        """Return the map during a change."""
        return replace(self, epoch=self.epoch + 1, following=following)

    def end(self, placement: Placement) -> ShardMap:
        """Return the map after a change."""
        return replace(self, epoch=self.epoch + 1, now=placement, following=None)

    def add(self, mark: str) -> ShardMap:
        """Return the map with one shard more."""
        now = self.now
        placement = Placement((*now.states, ShardState.ADDED), now.held, self.epoch + 1)
        return replace(self.end(placement), newest=mark)
