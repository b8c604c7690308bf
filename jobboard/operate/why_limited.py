"""Why a lane or the limit of a name lets a job not start: who holds the slots, what is paused, when the rate allows."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from jobboard.backends.rows import JobRow
from jobboard.board import client_of
from jobboard.errors import NotFound
from jobboard.events import EventKind
from jobboard.limit import Limit, prefix_of
from jobboard.operate.durations import duration
from jobboard.operate.held_lanes import failing_text
from jobboard.operate.limits import command_for
from jobboard.operate.views import in_brackets
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.board import JobBoard

#: How many of the jobs that hold a lane's slots are named.
MAX_HOLDERS = 5


def name_is_full(board: JobBoard, name: str) -> str | None:
    """Return sentences if as many jobs of a name are claimed as its limit says; None if not, or if it has none."""
    limit = board.limits.get(name=name)
    if limit is None or limit.running is None:
        return None
    numbers = board.stats().names.get(name)
    claimed = 0 if numbers is None else numbers.claimed
    if claimed < limit.running:
        return None
    text = f"The limit of jobs named {name!r} has {claimed} of {limit.running} claims."
    see = f"jobboard ls --state claimed --job-name {shlex.quote(name)}"
    return f"{text} See them with: {see}. If more may run: {command_for(limit, claimed + 1)}"


def paused_lane(limit: Limit) -> str:
    """Return a sentence that says that a lane, or each with a prefix, is paused."""
    return f"The lane {limit.lane} is paused{in_brackets(asdict(limit))}."


def why_blocked(board: JobBoard, lane: str, claimed_names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield why a job that is BLOCKED in this lane is so: a kind, and a sentence. Nine requests at most.

    :param claimed_names: the names that conductors which are alive claim.
    """
    limits = {limit.lane: limit for limit in board.limits if limit.lane is not None}
    paused = [limits[each] for each in (lane, prefix_of(lane)) if each in limits and limits[each].paused]
    for limit in paused:
        yield "lane_paused", f"{paused_lane(limit)} Go on with: jobboard resume --lane {shlex.quote(str(limit.lane))}"
    client = client_of(board)
    detail = client.call(client.backend.limits.lane, lane, MAX_HOLDERS)
    limit_of_lane = board.limits.of(lane)
    running = None if limit_of_lane is None else limit_of_lane.running
    taken = detail.row.claimed + detail.row.claimable
    is_strict = limit_of_lane is not None and limit_of_lane.order == "strict"
    taken += detail.row.retrying if is_strict else 0
    if limit_of_lane is not None and running is not None and taken >= running:
        now = client.call(client.backend.now)
        texts = [
            _holder(board, row, now, claimed_names)
            for row in detail.holders
            if is_strict or row.state is not JobState.DELAYED
        ]
        texts += [f"and {taken - len(texts)} more"] if taken > len(texts) > 0 else []
        text = f"Its lane {lane} has {taken} of {running}{': ' if texts else ''}{', '.join(texts)}."
        yield "lane_full", f"{text} If more may run: {command_for(limit_of_lane, taken + 1)}"
    elif detail.next_in is not None and detail.next_in > 0:
        text = f"The rate of its lane {lane} lets the next one start in {detail.next_in:.1f} s."
        yield "lane_rate", f"{text} See the rates with: jobboard limits"
    elif not paused:
        text = f"Its lane {lane} has room: it waits for its turn among {detail.row.blocked} jobs, or for the next look."
        yield "blocked", text


def _holder(board: JobBoard, row: JobRow, now: float, claimed_names: Collection[str]) -> str:
    """Say what a job does that holds a slot of a lane."""
    which = f"job {row.uuid} ({row.name})"
    if row.state is JobState.CLAIMED:
        since = _claimed_at(board, row.uuid)
        return f"{which} runs{'' if since is None else f' since {duration(max(0.0, now - since))}'} ({row.owner})"
    if row.state is JobState.DELAYED:
        return failing_text(row, now)
    nobody = "" if row.name in claimed_names else " and no conductor runs its name"
    return f"{which} can be claimed since {duration(max(0.0, now - row.place))}{nobody}"


def _claimed_at(board: JobBoard, uuid: str) -> float | None:
    try:
        history = board.get(uuid).record.history
    except NotFound:
        return None
    return next((line.at.timestamp() for line in reversed(history) if line.kind is EventKind.CLAIMED), None)
