"""Why is a job not running? All reasons, the most important first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobboard.backends.reasons import RUNS_AGAIN, has_not_failed
from jobboard.board import client_of, handles_of
from jobboard.events import EventKind
from jobboard.graph.blocked import Wait, wait_of
from jobboard.job import row_of
from jobboard.operate.claimed_since import last_claim_in
from jobboard.operate.partly_known import PartlyKnown
from jobboard.operate.pasting import argument
from jobboard.operate.reason import Reason
from jobboard.operate.restoring import holder_of_key, way_back
from jobboard.operate.views import paused_sentences
from jobboard.operate.why_conductors import Claimers, able_of, why_next, why_unclaimed
from jobboard.operate.why_limited import jobs_before, name_is_full, why_blocked, why_on_its_shard
from jobboard.operate.why_missed import missed_waiting, why_missed
from jobboard.operate.why_waiting import why_in_time, why_waiting
from jobboard.participants import SilentRun, UnsentEnd, handles_all, names_of, silent_runs_of, unsent_of
from jobboard.states import JobState
from jobboard.text import duration, last_line_of, short_duration, utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobboard.backends.rows import JobRow, Pause
    from jobboard.board import JobBoard
    from jobboard.events import HistoryEntry
    from jobboard.job import Job
    from jobboard.participants import Entity

#: The jobs before this one are counted up to here.
MAX_AHEAD = 1000

#: A handler is in haste that has asked to run again so often, with fewer seconds than this from one time to the next.
_FEW, _HASTY = 5, 1.0

#: The lines of a history that may have given a job its delay.
_DELAYING = frozenset({EventKind.POSTED, EventKind.REPLACED, EventKind.ABANDONED})

_IF_NOT_CANCELLED = (
    "If it goes on, take the job from it with: jobboard trash {uuid}; or, for another attempt: jobboard release {uuid}"
)


def why(board: JobBoard, job: Job) -> list[Reason]:
    """Return the reasons why a job is not running, or what it does instead; never empty.

    While a shard of the board is away, the first one names it, and says what is unknown therefore.

    Kinds: ``shard_away``, ``complete``, ``trashed``, ``key_taken``, ``claimed``, ``unsent``, ``handler_silent``,
    ``owner_gone``, ``owner_unknown``, ``cancel_asked``, ``board_paused``, ``name_paused``, ``name_full``,
    ``name_slots``, ``delayed``, ``parent_failed``, ``parents``, ``cycle``, ``graph``, ``signal``, ``lane_paused``,
    ``lane_full``, ``lane_offered``, ``lane_rate``, ``blocked``, ``no_conductor``, ``quiet``, ``conductor_silent``,
    ``no_free_slot``, ``stuck``, ``behind``, ``runs_again``, ``failed_before``, ``next``, ``start_by``.
    """
    record = job.record
    if record.state is JobState.COMPLETE:
        return [Reason("complete", f"It is complete, consumed by {record.owner} at {utc(record.last_modified)}.")]
    known = PartlyKnown()
    find = {JobState.CLAIMED: _why_claimed, JobState.TRASHED: _why_trashed}.get(record.state, _why_waiting)
    reasons = find(board, job, known)
    return [Reason("shard_away", str(known)), *reasons] if known.unknown else reasons


def _why_trashed(board: JobBoard, job: Job, known: PartlyKnown) -> list[Reason]:
    text = f"It is in the trash: {job.record.reason or 'no reason was given'}."
    holder = known.look(lambda: holder_of_key(board, job.name, job.key), "whether a live job has its key")
    if holder is not None:
        return [Reason("trashed", text), Reason("key_taken", *way_back(job.uuid, holder))]
    if missed_waiting(row := row_of(job)):
        waits = known.look(lambda: list(why_missed(board, row)), "how the jobs that it waited for stand")
        if waits:
            return [Reason("trashed", text), *waits]
    return [Reason("trashed", text, f"Bring it back with: jobboard restore {job.uuid}")]


def _why_waiting(board: JobBoard, job: Job, known: PartlyKnown) -> list[Reason]:
    record, row = job.record, row_of(job)
    entities = known.look(board.entities, "which conductors are registered there") or []
    able, are_known = able_of(entities, job.name), not known.unknown
    with known.reads:  # Each shard knows all of them.
        pauses = board.pauses()
    reasons = _why_paused(board, job, pauses, known)
    if record.state is JobState.UNCLAIMED or wait_of(row) is Wait.LANE:
        elsewhere = known.look(lambda: why_on_its_shard(board, row), "which shards may run jobs of its name")
        reasons += [Reason("name_slots", *elsewhere)] if elsewhere is not None else []
    if record.state is JobState.DELAYED and record.run_at is not None:
        text = f"It is delayed until {utc(record.run_at)}{_whose_wish(record.history)}."
        reasons.append(Reason("delayed", text, f"Run it now with: jobboard run-now {job.uuid}"))
    claimers = Claimers(entities, {pause.name for pause in pauses})
    reasons += known.look(lambda: list(why_waiting(board, row, claimers)), "how the jobs that it waits for stand") or []
    if wait_of(row) is Wait.LANE and job.lane is not None:
        reasons += _why_in_lane(board, row, job.lane, claimers, known)
    now = client_of(board).call(client_of(board).backend.now)
    if able or are_known:
        reasons += why_unclaimed(entities, job, now)
    if record.state is JobState.UNCLAIMED:
        reasons += known.look(lambda: _why_behind(board, job, able), "which jobs there come before it") or []
    reasons += _why_failed(job)
    if not known.unknown and all(reason.kind in ("failed_before", "runs_again") for reason in reasons):
        reasons.append(Reason("next", why_next(able, now)))
    return [*reasons, *why_in_time(row.ties, row.token)]


def _why_claimed(board: JobBoard, job: Job, known: PartlyKnown) -> list[Reason]:
    record = job.record
    until = f"until {utc(record.expires_at)}, unless renewed" if record.expires_at else "without an end"
    attempt = _attempt(job)
    since = last_claim_in(record.history)
    claimed = f"It is claimed by {record.owner}{f' since {utc(since)}' if since else ''}"
    entities = known.look(board.entities, "which participants are registered there") or []
    owner = next((entity for entity in entities if entity.name == record.owner), None)
    ask = (
        f"Ask its owner to stop with: jobboard cancel {job.uuid}"
        if owner and owner.alive and not record.cancel_asked
        else ""
    )
    reasons = [Reason("claimed", f"{claimed}, {until} ({attempt}).", ask)]
    reasons += [Reason("unsent", *_unsent(end)) for end in (unsent_of(owner) if owner else []) if end.uuid == job.uuid]
    silent = silent_runs_of(owner) if owner else []
    reasons += [Reason("handler_silent", _silent(run)) for run in silent if run.uuid == job.uuid]
    if owner is None and not known.unknown:
        reasons.append(Reason("owner_unknown", "No participant of that name is registered; it may be gone."))
    elif owner is not None and not owner.alive:
        seen = f"was last seen at {utc(owner.last_seen)}" if owner.last_seen else "is gone"
        cure = f"The job comes back when its claim ends, or now with: jobboard release {job.uuid}"
        reasons.append(Reason("owner_gone", f"That owner {seen}.", cure))
    if record.cancel_asked:
        text = "Its cancel was asked for; its owner has been told."
        reasons.append(Reason("cancel_asked", text, _IF_NOT_CANCELLED.format(uuid=job.uuid)))
    return [*reasons, *_why_again(job)]


def _unsent(end: UnsentEnd) -> tuple[str, str]:
    return (
        f"Its handler has returned, and the store refuses its end for {duration(end.seconds)}: {end.error}. Its owner "
        "tries on, and keeps the claim.",
        f"To run it again nevertheless: jobboard release {end.uuid}",
    )


def _silent(run: SilentRun) -> str:
    return (
        f"Its handler had given no sign of life for {duration(run.seconds)} when its owner last told of it; "
        f"after {duration(run.limit)} without progress, a step or a checkpoint its run counts as failed."
    )


def _why_in_lane(board: JobBoard, row: JobRow, lane: str, claimers: Claimers, known: PartlyKnown) -> list[Reason]:
    blocked = known.look(lambda: list(why_blocked(board, lane, claimers)), f"what limits the lane {lane}") or []
    before = known.look(lambda: jobs_before(board, row, MAX_AHEAD), f"which jobs of the lane {lane} come before it")
    return [*blocked, *([Reason("behind", before)] if before else [])]


def _why_paused(board: JobBoard, job: Job, pauses: Sequence[Pause], known: PartlyKnown) -> list[Reason]:
    said, reasons = paused_sentences(pauses), []
    if None in said:
        reasons.append(Reason("board_paused", said[None], "Go on with: jobboard resume"))
    if job.name in said:
        cure = f"Go on with: jobboard resume {argument(job.name)}"
        reasons.append(Reason("name_paused", said[job.name], cure))
    full = known.look(lambda: name_is_full(board, job.name), "how many jobs of its name run there")
    return [*reasons, full] if full is not None else reasons


def _why_behind(board: JobBoard, job: Job, able: list[Entity]) -> list[Reason]:
    """Count the jobs that the able conductors would claim first."""
    names = None if any(map(handles_all, able)) else frozenset({job.name}).union(*map(names_of, able))
    ahead = higher = 0
    for other in handles_of(board).rows(frozenset({JobState.UNCLAIMED}), names):
        if other.uuid == job.uuid or ahead == MAX_AHEAD:
            break
        ahead += 1
        higher += other.priority > job.priority
    if not ahead:
        return []
    number = "1 job comes" if ahead == 1 else f"{ahead}{' or more' * (ahead == MAX_AHEAD)} jobs come"
    return [Reason("behind", f"{number} before it, {_by_what(ahead, higher)}.")]


def _by_what(ahead: int, higher: int) -> str:
    """Say by what jobs come before another one: those of a higher priority come first."""
    if not higher:
        return "by age"
    if higher < ahead:
        return f"{higher} by a higher priority and the others by age"
    return f"{f'the first {ahead} ' if ahead == MAX_AHEAD else ''}by a higher priority"


def _why_failed(job: Job) -> list[Reason]:
    return [*_why_again(job), *_why_last_failed(job)]


def _whose_wish(history: Sequence[HistoryEntry]) -> str:
    """Say of a delay that the handler has asked for it; "" of another one, and if that is unknown."""
    last = next((line for line in reversed(history) if line.kind in _DELAYING), None)
    if last is None or last.kind is not EventKind.ABANDONED or not has_not_failed(last.reason):
        return ""
    return ", since its handler asked to run again then" if last.reason == RUNS_AGAIN else f", since {last.reason}"


def _why_again(job: Job) -> Iterator[Reason]:
    """Say how often the handler has asked to run again, as far as the history goes back."""
    history = job.record.history
    ends = [line for line in history if line.kind is EventKind.ABANDONED]
    asked = [line.at for line in ends if line.reason == RUNS_AGAIN]
    if not asked or ends[-1].reason != RUNS_AGAIN:
        return
    last, number = utc(asked[-1]), len(asked)
    is_whole = history[0].kind is EventKind.POSTED
    often = (
        ""
        if number == 1 and is_whole
        else f"; it has {number} times{' or more' * (not is_whole)} since {utc(asked[0])}"
    )
    text = f"Its last run, until {last}, did not fail: its handler asked to run again{often}."
    if number >= _FEW and (pace := (asked[-1] - asked[0]).total_seconds() / (number - 1)) < _HASTY:
        text += f" That is every {short_duration(pace)}, and each run costs a claim: let it return RunAgain(after=...)."
    yield Reason("runs_again", text)


def _why_last_failed(job: Job) -> list[Reason]:
    error = last_line_of(job.record.last_error)
    if error is None:
        return []
    if not job.record.attempts:
        # It was restored from the trash, which resets its attempts.
        return [Reason("failed_before", f"It was restored; its last error was: {error}")]
    return [Reason("failed_before", f"Its last error ({_attempt(job)} so far): {error}")]


def _attempt(job: Job) -> str:
    most = f" of {job.max_attempts}" if job.max_attempts else ""
    return f"attempt {job.record.attempts}{most}"
