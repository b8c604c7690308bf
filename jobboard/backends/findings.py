"""What an operator learns of a store across the seam: faults of records, what holds back old rows, what it keeps."""

from __future__ import annotations

from dataclasses import dataclass

from jobboard.stats import BoardStats


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A record that contradicts itself or another; ``uuid`` is None when it concerns no single job."""

    uuid: str | None
    problem: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
    """Something that keeps a store from deleting old rows, which it then reads again and again.

    :ivar name: by which the store knows it.
    :ivar holder: what it is, and whose.
    :ivar held: what it holds back, in the store's word.
    :ivar end: the command that ends it.
    :ivar seconds: for how long; None if the store does not tell.
    """

    name: str
    holder: str
    held: str
    end: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Shortage:
    """What will soon keep a store from taking changes, or does so already.

    :ivar text: what is short and what to do; a sentence without its end.
    :ivar is_full: whether the store refuses changes now.
    """

    text: str
    is_full: bool = False


@dataclass(frozen=True, slots=True)
class Persistence:
    """Whether a store keeps what it has acknowledged.

    :ivar kept: False: it is gone with the store's process, or the store may be damaged by a crash. None: the store does
        not tell this login.
    :ivar text: what a crash may cost, or what to do; a sentence without its end, "" if there is nothing to say.
    """

    kept: bool | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a board that is spread over several: its number, and its jobs, or why it does not tell them.

    :ivar state: ``"open"``, or ``"added"``, ``"draining"`` or ``"gone"``.
    """

    number: int
    stats: BoardStats | None
    failure: str = ""
    state: str = "open"


@dataclass(frozen=True, slots=True)
class Migration:
    """A store's schema: the version that was found, None if there was nothing, and the one it has now.

    ``mended`` names the sequences that were behind their rows.
    """

    found: str | None
    now: str
    mended: tuple[str, ...] = ()
