"""What keeps jobs from being claimed: pauses, and limits of names. A claim holds only if nothing of it is newer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jobboard.backends.etcd.keys import Keys, decoded
from jobboard.backends.etcd.stored import Hint
from jobboard.backends.etcd.txn import Compare, Found, Op, after, count_prefix, none_newer, scan_prefix

#: Stands for no number: the claims of such a name are counted, since its limit is about to be set.
_UNTOLD = b"-"

#: Larger than every limit.
_UNLIMITED = 10**9


@dataclass(frozen=True, slots=True)
class Restrictions:
    """The paused names (None among them: the whole board), the limits of names, and the names of BLOCKED jobs.

    ``revision`` is that of the newest pause or limit: a claim compares that there is no newer one. ``waiting`` may have
    names whose jobs don't wait any more.
    """

    paused: frozenset[str | None] = frozenset()
    limits: Mapping[str, int] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    revision: int = 0

    @classmethod
    def of(cls, keys: Keys, found: Found) -> Restrictions:
        """Read the keys of pauses, limits and waiting names, without their values."""
        paused, limits, waiting, revision = set[str | None](), dict[str, int](), set[str](), 0
        for kv in found.kvs:
            if kv.key.startswith(keys.waiting):
                waiting.add(decoded(kv.last_part))
                continue
            revision = max(revision, kv.modified)
            if kv.key == keys.paused_board:
                paused.add(None)
            elif kv.key.startswith(keys.paused_names):
                paused.add(decoded(kv.last_part))
            elif kv.key.startswith(keys.limited):
                name, _, number = kv.key[len(keys.limited) :].partition(b"/")
                limits[decoded(name)] = int(number) if number.isdigit() else _UNLIMITED
        return cls(frozenset(paused), limits, frozenset(waiting), revision)

    def limited(self, names: frozenset[str] | None) -> list[str]:
        """Return those of these names (None: all) that have a limit."""
        return sorted(self.limits if names is None else names & self.limits.keys())

    def unchanged(self, keys: Keys) -> Compare:
        """Hold if nothing was paused, and no limit set, since."""
        # Behind these stand the names of BLOCKED jobs, which stop no claim.
        return none_newer(keys.paused, after(keys.paused_names), self.revision)


def all_restrictions(keys: Keys) -> Op:
    return scan_prefix(keys.paused, keys_only=True)


@dataclass(slots=True)
class Grant:
    """How many jobs of each name a claim may take: none of a stopped one, as many of a limited one as there is room.

    ``counted`` are the numbers of claims of limited names, as read.
    """

    restrictions: Restrictions
    counted: Mapping[str, Found] = field(default_factory=dict)
    room: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        limits = self.restrictions.limits
        self.room = {name: limits[name] - count.total for name, count in self.counted.items()}

    @property
    def is_stopped(self) -> bool:
        """Whether no job may be claimed."""
        return None in self.restrictions.paused

    def refuses(self, name: str) -> bool:
        """Whether no job of a name may be claimed now."""
        # Of a limited name whose claims were not counted, none may be claimed.
        room = self.room.get(name, 0 if name in self.restrictions.limits else 1)
        return self.is_stopped or name in self.restrictions.paused or room <= 0

    def take(self, jobs: Iterable[tuple[bytes, Hint, int]]) -> list[tuple[bytes, Hint, int]]:
        """Return those of these jobs that may be claimed together, the first ones of each name."""
        taken = []
        for job in jobs:
            name = job[1].name
            if not self.refuses(name):
                taken.append(job)
                if name in self.room:
                    self.room[name] -= 1
        return taken

    def conditions(self, keys: Keys, names: Iterable[str]) -> list[Compare]:
        """Hold if jobs of these names may still be claimed: nothing was stopped, and none claimed, since."""
        compares = [self.restrictions.unchanged(keys)]
        for name in sorted(set(names) & self.counted.keys()):
            prefix = keys.running_of(name)
            compares.append(none_newer(prefix, after(prefix), self.counted[name].revision))
        return compares


def counts_of(keys: Keys, names: Sequence[str]) -> list[Op]:
    """Count the claims of limited names."""
    return [count_prefix(keys.running_of(name)) for name in names]


def limit_key(keys: Keys, name: str, running: int | None) -> bytes:
    """Return the key that tells claims of the limit of a name; None: claims are counted, but not limited."""
    return keys.limited_name(name) + (_UNTOLD if running is None else b"%d" % running)
