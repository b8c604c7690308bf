"""Why a lane or the limit of a name lets a job not start: who holds the slots, what is paused, when the rate allows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from jobboard.backends.lane_rows import LaneDetail, NameShare
from jobboard.backends.rows import JobRow
from jobboard.board import client_of, handles_of
from jobboard.limit import Limit, Rate, prefix_of
from jobboard.naming import named
from jobboard.operate.claimed_since import claimed_since
from jobboard.operate.held_lanes import failing_text
from jobboard.operate.limits import command_for
from jobboard.operate.reason import Reason
from jobboard.operate.views import in_brackets
from jobboard.operate.why_conductors import Claimers
from jobboard.states import JobState
from jobboard.text import duration, until_text

if TYPE_CHECKING:
    from jobboard.board import JobBoard

#: How many of the jobs that hold a lane's slots are named.
MAX_HOLDERS = 5


def name_is_full(board: JobBoard, name: str) -> Reason | None:
    """Say that as many jobs of a name are claimed as its limit says; None if it is not so, or if it has none."""
    limit = board.limits.get(name=name)
    if limit is None or limit.running is None:
        return None
    numbers = board.stats().names.get(name)
    claimed = 0 if numbers is None else numbers.claimed
    if claimed < limit.running:
        return None
    text = f"The limit of jobs named {name!r} has {claimed} of {limit.running} claims."
    see = f"jobboard ls --state claimed --job-name {shlex.quote(name)}"
    return Reason("name_full", f"{text} See them with: {see}.", **_if_more_may_run(limit, claimed))


def _if_more_may_run(limit: Limit, taken: int) -> dict[str, Any]:
    """Return what mends a full limit: one that lets one more run than do now, and says what else it says."""
    wider = replace(limit, running=taken + 1)
    return {"cure": f"If more may run: {command_for(wider)}", "limit": wider}


def why_on_its_shard(board: JobBoard, row: JobRow) -> tuple[str, str] | None:
    """Return sentences if the shard of a job has no room for its name: which shards have it; and how some comes.

    None if it has room, and on a board that is not spread, without a request. 50 requests at most.
    """
    client = client_of(board)
    limit = board.limits.get(name=row.name) if client.backend.capabilities.sharded else None
    if limit is None or not limit.running:
        return None
    shares = client.call(client.backend.name_shares, row.uuid, row.name, MAX_HOLDERS)
    if not shares:
        return None
    now, own = client.call(client.backend.now), shares[0]
    texts = [_share(board, share, now) for share in shares if share is not own or share.claimed]
    left, is_whole = limit.running - sum(share.running for share in shares), len(shares) < MAX_HOLDERS
    if left > 0:
        texts.append(f"Free: {left}." if own.moves and is_whole else f"Other shards have {left}.")
    is_free = own.moves and (
        (is_whole and left > 0) or any(each.claimed is not None and each.claimed < each.running for each in shares)
    )
    holders = [holder for share in shares for holder in share.holders]
    have = f"It is on shard {own.shard}, which has {own.running} of {limit.running} slots of its name."
    return " ".join([have, *texts]), _when_free(own, is_free, holders)


def _share(board: JobBoard, share: NameShare, now: float) -> str:
    if share.claimed is None:
        return f"Shard {share.shard} has {share.running}, and does not answer; it keeps that until it is back."
    texts = [_runs(board, row, now) for row in share.holders]
    texts += [f"and {share.claimed - len(texts)} more"] if share.claimed > len(texts) > 0 else []
    runs = f": {', '.join(texts)}" if texts else ", and runs no such job" if not share.claimed else ""
    return f"Shard {share.shard} has {share.running}{runs}."


def _when_free(own: NameShare, is_free: bool, holders: list[JobRow]) -> str:
    if is_free:
        return "The conductors soon move a free one to where jobs wait."
    rule = "Shards take turns: one" if own.moves else "The limit is divided among the shards: one"
    end = f" To end one: jobboard cancel {holders[0].uuid}" if holders else ""
    return f"{rule} is free once such a job has ended.{end}"


def paused_lane(limit: Limit) -> str:
    """Return a sentence that says that a lane, or each with a prefix, is paused."""
    return f"The lane {limit.lane} is paused{until_text(limit.paused_until)}{in_brackets(asdict(limit))}."


def why_blocked(board: JobBoard, lane: str, claimers: Claimers) -> Iterator[Reason]:
    """Yield why a job that is BLOCKED in this lane is so. Nine requests at most."""
    limits = {limit.lane: limit for limit in board.limits if limit.lane is not None}
    paused = [limits[each] for each in (lane, prefix_of(lane)) if each in limits and limits[each].paused]
    for limit in paused:
        resume = f"jobboard resume --lane {shlex.quote(str(limit.lane))}"
        yield Reason("lane_paused", paused_lane(limit), f"Go on with: {resume}")
    client = client_of(board)
    detail = client.call(client.backend.limits.lane, lane, MAX_HOLDERS)
    limit_of_lane = board.limits.of(lane)
    running = None if limit_of_lane is None else limit_of_lane.running
    rate = None if limit_of_lane is None else limit_of_lane.rate
    taken = detail.row.claimed + detail.row.claimable
    is_strict = limit_of_lane is not None and limit_of_lane.order == "strict"
    taken += detail.row.retrying if is_strict else 0
    if limit_of_lane is not None and running is not None and taken >= running:
        now = client.call(client.backend.now)
        texts = [
            _holder(board, row, now, claimers)
            for row in detail.holders
            if is_strict or row.state is not JobState.DELAYED
        ]
        texts += [f"and {taken - len(texts)} more"] if taken > len(texts) > 0 else []
        text = f"Its lane {lane} has {taken} of {running}{': ' if texts else ''}{', '.join(texts)}."
        yield Reason("lane_full", text, **_if_more_may_run(limit_of_lane, taken))
    elif rate is not None and detail.row.claimable >= rate.burst:
        yield Reason("lane_offered", _offered(board, detail, rate, claimers))
    elif detail.next_in is not None and detail.next_in > 0:
        text = f"The rate of its lane {lane} lets the next one start in {max(0.1, detail.next_in):.1f} s."
        yield Reason("lane_rate", text, "See the rates with: jobboard limits")
    elif not paused:
        text = f"Its lane {lane} has room: it waits for its turn among {detail.row.blocked} jobs, or for the next look."
        yield Reason("blocked", text)


def _offered(board: JobBoard, detail: LaneDetail, rate: Rate, claimers: Claimers) -> str:
    """Say which jobs a rate has let start; it lets no more start than a burst before somebody claims one."""
    client, number = client_of(board), detail.row.claimable
    now, rows = client.call(client.backend.now), [row for row in detail.holders if row.state is JobState.UNCLAIMED]
    texts = [_holder(board, row, now, claimers) for row in rows]
    texts += [f"and {number - len(texts)} more"] if number > len(texts) > 0 else []
    return (
        f"The rate of its lane {detail.row.lane} ({rate}) lets the next one start once one of these is claimed"
        f"{': ' if texts else ''}{', '.join(texts)}."
    )


def jobs_before(board: JobBoard, row: JobRow, most: int) -> str | None:
    """Say how many jobs of its lane wait before one that is BLOCKED; None if none does, or too much else waits.

    :param most: how many blocked jobs of the board are read at most.
    """
    ahead = 0
    for other in islice(handles_of(board).rows(frozenset({JobState.BLOCKED}), None), most):
        if other.uuid == row.uuid:
            return f"{ahead} job{'s' * (ahead != 1)} of its lane wait{'s' * (ahead == 1)} before it." if ahead else None
        ahead += other.joined_lane == row.joined_lane
    return None


def _holder(board: JobBoard, row: JobRow, now: float, claimers: Claimers) -> str:
    """Say what a job does that holds a slot of a lane."""
    if row.state is JobState.CLAIMED:
        return _runs(board, row, now)
    if row.state is JobState.DELAYED:
        return failing_text(row, now)
    since = f"{named(row)} can be claimed since {duration(max(0.0, now - row.place))}"
    return f"{since}{claimers.obstacle(row.name)}"


def _runs(board: JobBoard, row: JobRow, now: float) -> str:
    since = claimed_since(board, [row.uuid]).get(row.uuid)
    for_long = "" if since is None else f" since {duration(max(0.0, now - since.timestamp()))}"
    return f"{named(row)} runs{for_long} ({row.owner})"
