"""Lanes: of the jobs that are tied to one, at most one is claimable or claimed, and the others wait as BLOCKED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobboard.states import JobState

#: The states in which a job holds its lane's slot.
HOLDS_SLOT = frozenset({JobState.UNCLAIMED, JobState.CLAIMED})


def problems_of_lanes(holders: Mapping[str, int], blocked: Mapping[str, int]) -> Iterator[str]:
    """Say what an audit finds wrong with lanes.

    :param holders: how many jobs of each lane hold its slot.
    :param blocked: how many jobs of each lane are BLOCKED.
    """
    for lane, count in holders.items():
        if count > 1:
            yield f"the slot of the lane {lane!r} is held by {count} jobs"
    for lane, count in blocked.items():
        if count and not holders.get(lane):
            yield f"the slot of the lane {lane!r} is free, and {count} of its jobs are BLOCKED"
