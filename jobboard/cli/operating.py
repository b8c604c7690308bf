"""The operators' commands: what they do to jobs, pauses, quiet, check, migrate, upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from jobboard.backends.reasons import trashed_by_operator
from jobboard.cli.families import may_take_children
from jobboard.cli.selecting import change_selected, is_for_one, one_some_or_all, selected, selectors, warn_of_more
from jobboard.cli.session import PRIORITY, Session, by_and_note, command, confirm, is_given, pass_session, yes_option
from jobboard.cli.values import SPAN, moment_of
from jobboard.errors import NotFound
from jobboard.job import row_of as stored_row_of
from jobboard.operate.bulk import ACTIONS, reprioritizing
from jobboard.operate.finding import check_not_ended, find_job
from jobboard.operate.selecting import Selection, place_of
from jobboard.operate.trash import MAX_READ, grouped
from jobboard.operate.views import paused_texts, paused_view, row_of
from jobboard.states import LIVE, JobState
from jobboard.validation import moment

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

_GROUP_COLUMNS = ("name", "reason_kind", "jobs", "first", "last", "example")


@command(
    "release",
    "jobboard release 3f2a --note 'its host is gone'",
    "jobboard release --owner worker@host-7 --note 'its host is gone' --yes",
)
@one_some_or_all
@by_and_note
@selectors(among={JobState.CLAIMED})
@pass_session
def release(session: Session, /, job: str | None, by: str, note: str | None, dry_run: bool, **which: Any) -> None:
    """End the claims of jobs: they are claimable again at once, and their owners can't end them any more.

    Asks first if it is not one JOB.
    """
    if job is not None and is_for_one(dry_run):
        board = session.board()
        found = find_job(board, job, LIVE)
        board.release(found, by=by, reason=note)
        _report(session, board, found, "is released", "is cancelled, which was asked for before")
    else:
        change_selected(session, ACTIONS["release"], by=by, note=note, job=job, dry_run=dry_run, **which)


@command("run-now", "jobboard run-now 3f2a", "jobboard run-now --job-name resize --reason 'no route to host' --yes")
@one_some_or_all
@by_and_note
@selectors(among={JobState.DELAYED})
@pass_session
def run_now(session: Session, /, **which: Any) -> None:
    """Let delayed jobs be claimed ahead of their time; asks first if it is not one JOB."""
    change_selected(session, ACTIONS["run_now"], **which)


@command(
    "reprioritize",
    "jobboard reprioritize 3f2a --priority high",
    "jobboard reprioritize --job-name resize --older-than 1h --priority very_high --note 'they wait for it' --yes",
    "jobboard reprioritize 3f2a --with-children --priority high --yes",
)
@one_some_or_all
@click.option("--priority", type=PRIORITY, required=True, help="What the jobs get.")
@by_and_note
@selectors(among=LIVE - {JobState.CLAIMED})
@pass_session
@may_take_children(lambda priority, **_: reprioritizing(priority))
def reprioritize(session: Session, /, priority: str, **which: Any) -> None:
    """Give jobs that wait another priority; asks first if it is not one JOB. Claimed jobs are refused."""
    change_selected(session, reprioritizing(priority), **which)


@command(
    "trash",
    "jobboard trash 3f2a --note 'its input is broken'",
    "jobboard trash --job-name resize --reason 'disk full' --yes",
)
@one_some_or_all
@by_and_note
@selectors(among=LIVE)
@pass_session
@may_take_children(lambda **_: ACTIONS["trash"])
def trash(session: Session, /, job: str | None, by: str, note: str | None, dry_run: bool, **which: Any) -> None:
    """Put jobs into the trash, of any owner; asks first if it is not one JOB."""
    if job is not None and is_for_one(dry_run):
        board = session.board()
        found = find_job(board, job, LIVE)
        check_not_ended(found, {JobState.COMPLETE})
        board.trash(found, by=by, reason=trashed_by_operator(note))
        _report(session, board, found, "is in the trash", "is gone")
    else:
        change_selected(session, ACTIONS["trash"], by=by, note=note, job=job, dry_run=dry_run, **which)


@command(
    "trashed",
    "jobboard trashed",
    "jobboard trashed --newest --limit 20",
    "jobboard trashed --newest --limit 20 --after 3f2a",
    "jobboard trashed --job-name resize --newer-than 1h",
    "jobboard trashed --groups",
    "jobboard trashed --job-name resize --reason-kind 'OSError: disk # is full'",
)
@click.option("--newest", is_flag=True, help="What came into the trash last comes first; see --scan.")
@click.option("--after", metavar="JOB", help="With --newest, go on behind this job, the last one that was listed.")
@click.option("--groups", is_flag=True, help="Count the jobs by name and kind of reason instead, of 10,000 at most.")
@selectors(among={JobState.TRASHED}, limit=100)
@pass_session
def trashed(session: Session, selection: Selection, newest: bool, after: str | None, groups: bool) -> None:
    """List the trash."""
    if newest and groups:
        raise click.UsageError("--newest is for a list, and --groups for numbers: give one of them")
    if after is not None and not newest:
        raise click.UsageError("--after is for --newest")
    board, most = session.board(), selection.limit
    if groups:
        everything = selection if is_given("limit") else replace(selection, limit=None)
        _show_groups(session, selected(session, everything, board))
        return
    more = replace(selection, limit=most and most + 1)
    if newest:
        place = None if after is None else place_of(_trashed_job(board, after))
        jobs = more.newest(board, partial(warn_of_more, session), place)
    else:
        jobs = list(selected(session, more, board))
    rows = [row_of(job) | {"trashed_on": job.record.last_modified, "reason": job.record.reason} for job in jobs[:most]]
    session.output.table(("uuid", "name", "key", "attempts", "trashed_on", "reason"), rows, empty="the trash is empty")
    if most is not None and len(jobs) > most and not is_given("limit"):
        further = f"--after {jobs[most - 1].uuid} lists the next ones, and --limit 0" if newest else "--limit 0 lists"
        session.output.warn(f"there are more than these {most}; {further} all")


def _trashed_job(board: JobBoard, text: str) -> Job:
    job = find_job(board, text, {JobState.TRASHED})
    if job.record.state is not JobState.TRASHED:
        raise click.UsageError(f"job {job.uuid} is not in the trash any more; give --after one that is")
    return job


def _show_groups(session: Session, jobs: Iterator[Job]) -> None:
    groups = grouped(map(stored_row_of, islice(jobs, MAX_READ)))
    rows = [
        {"name": group.name, "reason_kind": group.kind, "jobs": group.jobs, "first": moment(group.first),
         "last": moment(group.last), "example": group.example}
        for group in groups
    ]  # fmt: skip
    session.output.table(_GROUP_COLUMNS, rows, empty="the trash is empty", droppable=False)
    if next(jobs, None) is not None:
        session.output.warn(f"these are the first {MAX_READ:,} jobs, in the order of claims; there are more")
    session.output.hint("bring a group back with: jobboard restore --job-name NAME --reason-kind KIND")


@command(
    "restore",
    "jobboard restore 3f2a",
    "jobboard restore --job-name resize --reason 'disk full' --yes",
    "jobboard restore --job-name resize --reason-kind 'OSError: disk # is full' --dry-run",
    "jobboard restore --all --yes",
    "jobboard restore 3f2a --with-children",
)
@one_some_or_all
@by_and_note
@selectors(among={JobState.TRASHED})
@pass_session
@may_take_children(lambda **_: ACTIONS["restore"])
def restore(session: Session, /, **which: Any) -> None:
    """Bring jobs back from the trash, with no attempts used; asks first if it is not one JOB."""
    change_selected(session, ACTIONS["restore"], **which)


@command("purge", "jobboard purge 3f2a --yes", "jobboard purge --older-than 7d --yes")
@one_some_or_all
@by_and_note
@selectors(among={JobState.TRASHED})
@pass_session
def purge(session: Session, /, **which: Any) -> None:
    """Delete jobs from the trash for good; asks first."""
    change_selected(session, ACTIONS["purge"], asks_for_one=True, **which)


_lane = click.option("--lane", help="A lane, or PREFIX:* for each lane with that prefix; in place of NAME.")


@command(
    "pause",
    "jobboard pause resize --note 'the disk is full'",
    "jobboard pause --lane tenant:42 --note 'they asked for it'",
    "jobboard pause --lane stripe --for 30s",
    "jobboard pause",
)
@click.argument("name", required=False)
@_lane
@click.option("--for", "duration", type=SPAN, help="Of a lane: the pause ends by itself after this time.")
@click.option("--until", metavar="TIME", help="Or at this one: ISO 8601, with an offset.")
@by_and_note
@pass_session
def pause(
    session: Session,
    name: str | None,
    lane: str | None,
    duration: float | None,
    until: str | None,
    by: str,
    note: str | None,
) -> None:
    """Let no more jobs of this name, or of a lane, be claimed; without either, no jobs at all.

    Of what is paused already the first pause stays, with who paused it and why; of two that end, the later one.
    """
    end = None if until is None else moment_of("--until", until)
    if lane is None and (end is not None or duration is not None):
        raise click.UsageError("only the pause of a lane can end by itself; give --lane")
    if end is not None and duration is not None:
        raise click.UsageError("give --for or --until, not both")
    board = session.board_to_change()
    board.pause(name, lane=lane, duration=duration, until=end, by=by, reason=note)
    _tell_paused(session, board)
    if name is not None and next(board.iterjobs(names=[name]), None) is None:
        session.output.warn(f"no job on the board is named {name!r} now")


@command("resume", "jobboard resume resize", "jobboard resume --lane tenant:42", "jobboard resume")
@click.argument("name", required=False)
@_lane
@pass_session
def resume(session: Session, name: str | None, lane: str | None) -> None:
    """Undo a pause of this name or lane; without either, that of the whole board."""
    board = session.board()
    was_paused = _is_paused(board, name, lane)
    board.resume(name, lane=lane)
    what = f"the lane {lane}" if lane is not None else "the board" if name is None else f"the name {name!r}"
    _tell_paused(session, board, f"{what} {'is resumed' if was_paused else 'was not paused'}; ")


@command(
    "quiet",
    "jobboard quiet worker@host-7:4711",
    "jobboard quiet worker@host-7 --yes",
    "jobboard quiet --off worker@host-7:4711",
)
@click.argument("who")
@click.option("--off", is_flag=True, help="Let it claim again.")
@yes_option
@pass_session
def quiet(session: Session, who: str, off: bool, yes: bool) -> None:
    """Let a conductor claim no more, wherever it runs; its handlers go on. Within 10 seconds.

    WHO is the beginning of its name (see entities). Asks first if several conductors have that beginning.
    """
    board = session.board()
    names = [entity.name for entity in board.entities() if entity.kind == "conductor" and entity.alive]
    chosen = [name for name in names if name.startswith(who)]
    if not chosen:
        raise NotFound(f"no conductor that is alive has a name that begins with {who!r}; see: jobboard entities")
    what = "claim again" if off else "claim no more"
    if len(chosen) > 1 and not yes:
        confirm(f"let {len(chosen)} conductors {what}: {', '.join(chosen)}?")
    from jobboard.quiet import set_quiet

    set_quiet(board, chosen, not off)
    answer = {"conductors": chosen, "quiet": not off}
    session.output.report(answer, "\n".join(f"{name} will {what} within 10 s" for name in chosen))


@command("check", "jobboard check", "jobboard check --repair")
@click.option("--repair", is_flag=True, help="Repair what is found.")
@pass_session
def check(session: Session, repair: bool) -> None:
    """Look for records that contradict each other; exit status 1 if any are left."""
    board = session.board()
    session.output.hint("reading the whole board; 100,000 jobs may take a minute")
    findings = board.audit(repair=repair)
    rows = [{"uuid": found.uuid, "problem": found.problem, "repaired": found.repaired} for found in findings]
    if rows or session.output.json:
        session.output.table(("uuid", "problem", "repaired"), rows, empty="")
    else:
        session.output.say("all records agree")
    if any(not found.repaired for found in findings):
        raise click.exceptions.Exit(1)


@command(
    "migrate",
    "jobboard migrate --board postgresql://owner@db.example.org/app",
    "jobboard migrate --board 'mysql://owner@db.example.org/app?prefix=queue_' --dry-run",
)
@click.option("--dry-run", is_flag=True, help="Print the SQL, and change nothing.")
@pass_session
def migrate(session: Session, dry_run: bool) -> None:
    """Create the tables of a board in an SQL database, or bring them to this jobboard's version.

    Stop all programs that use an older version first. Boards create tables by themselves when they are opened, unless
    their URI says migrate=false. Changes nothing that is up to date, goes on where an interrupted migration ended, and
    refuses what a newer jobboard has made. PostgreSQL's sequences that are behind their rows, as after a restore of
    single tables, go on after them.
    """
    if dry_run:
        statements = session.closed_board().statements_of_migration()
        session.output.report({"statements": statements}, "\n".join(f"{statement};" for statement in statements))
    else:
        _migrate(session)


@command("upgrade", "jobboard upgrade --board redis://redis.example.org", "jobboard upgrade --json")
@pass_session
def upgrade(session: Session) -> None:
    """Bring a board to the layout that this jobboard uses, in place, once all its programs are stopped.

    A board of another layout refuses programs, and says both numbers. On SQL this is ``migrate``. May be run again,
    also after it was killed.
    """
    _migrate(session)


def _migrate(session: Session) -> None:
    board = session.closed_board()
    migration = board.migrate()
    before = "there was none" if migration.found is None else f"it was {migration.found}"
    text = ", as it was" if migration.found == migration.now else f"; {before}"
    mended = "".join(f"; the sequence {name} was behind its rows, and goes on after them" for name in migration.mended)
    data = {
        "store": board.store,
        "found": migration.found,
        "now": migration.now,
        "mended": list(migration.mended),
    }
    session.output.report(data, f"the layout is {migration.now}{text}{mended}")


def _report(session: Session, board: JobBoard, job: Job, what: str, otherwise: str) -> None:
    """Say what has become of a job; ``otherwise`` if it is not on the board any more."""
    try:
        session.output.report(row_of(board.get(job.uuid)), f"{job.uuid} {what}")
    except NotFound:
        session.output.report({"uuid": job.uuid, "gone": True}, f"{job.uuid} {otherwise}")


def _is_paused(board: JobBoard, name: str | None, lane: str | None) -> bool:
    if lane is None:
        return name in board.paused()
    limit = board.limits.get(lane=lane)
    return limit is not None and limit.paused


def _tell_paused(session: Session, board: JobBoard, before: str = "") -> None:
    paused = paused_view(board.pauses(), board.limits)
    texts = ", ".join(paused_texts(paused))
    session.output.report(paused, f"{before}paused: {texts}" if texts else f"{before}nothing is paused")


COMMANDS = (
    release,
    run_now,
    reprioritize,
    trash,
    trashed,
    restore,
    purge,
    pause,
    resume,
    quiet,
    check,
    migrate,
    upgrade,
)
