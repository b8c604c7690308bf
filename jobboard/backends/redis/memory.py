"""How full a server's memory is: once it is used up, it takes no posts, and whatever frees memory works on."""

from __future__ import annotations

from collections.abc import Mapping

from jobboard.backends.findings import Shortage

#: The part of it that may be used before anybody is told.
_ENOUGH = 0.8
_MIB = 1024**2


def shortages_of(facts: Mapping[str, str], where: str) -> list[Shortage]:
    """Return what a server's facts (INFO memory) say of its room, if it is nearly used up; [] if it has no bound.

    A server that may evict keys is always full, and refuses nothing for long.
    """
    allowed = int(facts.get("maxmemory", 0))
    # What it keeps for its replicas does not count.
    used = int(facts.get("used_memory", 0)) - int(facts.get("mem_not_counted_for_evict", 0))
    if not allowed or used < _ENOUGH * allowed or facts.get("maxmemory_policy", "noeviction") != "noeviction":
        return []
    fills = f"Redis at {where} uses {used / _MIB:.1f} of its {allowed / _MIB:.1f} MiB (maxmemory)"
    if used > allowed:
        cure = "conductors drain the board on; raise maxmemory, or cancel jobs and purge the trash"
        return [Shortage(f"{fills}, and takes no posts and no fires of schedules: {cure}", is_full=True)]
    cure = "raise maxmemory, purge the trash, or keep completed jobs shorter (retention)"
    return [Shortage(f"{fills}, and takes no posts once that is used up: {cure}")]
