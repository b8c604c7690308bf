"""The commands that put jobs on the board and take them off, and send them signals: post, signal, cancel, import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from jobboard.backends.rows import IfFailed
from jobboard.cli.families import may_take_children
from jobboard.cli.output import count
from jobboard.cli.selecting import change_selected, is_for_one, one_some_or_all, selectors, tell_refused
from jobboard.cli.session import PRIORITY, Session, by_and_note, by_option, command, if_exists_option, pass_session
from jobboard.cli.values import SPAN, details_of, json_of, moment_of, read_text, source_of
from jobboard.errors import NotFound
from jobboard.graph.blocked import awaited_signal
from jobboard.job import row_of
from jobboard.operate.bulk import ACTIONS, targets_of
from jobboard.operate.finding import check_not_ended, find_job
from jobboard.operate.importing import exported_jobs, import_jobs
from jobboard.operate.views import view_of
from jobboard.states import LIVE, JobState


@command(
    "post",
    'jobboard post resize --details \'{"path": "/a.png"}\'',
    "jobboard post invoice --key 4711 --if-exists replace --delay 1h --details @invoice.json",
    "generate | jobboard post import --lane tenant:42 --details -",
    "jobboard post report --after 3f2a --after import:4711 --if-failed run",
    "jobboard post index --key 4711 --if-exists replace --delay 5s --max-delay 1m",
)
@click.argument("name")
@click.option("--details", help="A JSON object; @FILE reads one from a file, and - from standard input.")
@click.option("--key", help="Unique among the live jobs of this name.")
@if_exists_option
@click.option("--priority", type=PRIORITY, default="normal", show_default=True)
@click.option("--run-at", metavar="TIME", help="Not before this time: ISO 8601, with a zone or offset.")
@click.option("--delay", type=SPAN, help="Not before this time has passed, such as 90s or 1h30m.")
@click.option("--max-attempts", type=int, metavar="N", help="Into the trash after N attempts.")
@click.option("--lane", help="What it shares limits with, such as tenant:42.")
@click.option("--uuid", help="The job's identity; posting the same one twice is one job.")
@click.option("--after", metavar="JOB", multiple=True, help="Only after this job has ended well; may be repeated.")
@click.option(
    "--if-failed",
    type=click.Choice([each.value for each in IfFailed]),
    default="wait",
    show_default=True,
    help="What becomes of it if a job of --after fails: wait until that is restored, cancel this one, or run it.",
)
@click.option("--start-by", metavar="TIME", help="Into the trash, unless it has begun by then.")
@click.option("--key-for", type=SPAN, help="Keep the key taken for this time from now, also if the job ends before.")
@click.option("--max-delay", type=SPAN, help="Let posts that replace it delay it until this time from now at most.")
@pass_session
def post(
    session: Session,
    /,
    details: str | None,
    run_at: str | None,
    start_by: str | None,
    after: Sequence[str],
    **options: Any,
) -> None:
    """Post a job, and print its uuid: the tracking id.

    Standard error says so if conductors are alive and none of them has a handler for NAME.
    """
    options["details"] = details_of(details)
    options["run_at"] = None if run_at is None else moment_of("--run-at", run_at)
    options["start_by"] = None if start_by is None else moment_of("--start-by", start_by)
    board = session.board_to_change()
    options["after"] = [find_job(board, job) for job in after] or None
    job = board.post(**options)
    session.output.report(view_of(job), job.uuid)
    if job.record.cancel_asked:
        session.output.warn(f"job {job.uuid} runs already and was asked to stop: its work may not be done")
    session.warn_of_unhandled(board, job.name)


@command(
    "signal",
    "jobboard signal 3f2a approved",
    'jobboard signal order:4711 approved --value \'{"by": "ann"}\'',
)
@click.argument("job")
@click.argument("name")
@click.option("--value", metavar="JSON", help="What the handler gets; @FILE reads it from a file, - standard input.")
@by_option
@pass_session
def signal(session: Session, job: str, name: str, value: str | None, by: str) -> None:
    """Send a signal to a job, which waits for it or will; of two of one name the first one stays."""
    board = session.board()
    found = find_job(board, job, LIVE)
    check_not_ended(found)
    is_new = board.signal(found, name, None if value is None else json_of("--value", value), by=by)
    text = "has the signal" if is_new else "had the signal already, and keeps its first value:"
    awaited = awaited_signal(row_of(found))
    still = "" if awaited in (None, name) else f"; it goes on waiting for the signal {awaited}"
    session.output.report({"uuid": found.uuid, "signal": name, "new": is_new}, f"{found.uuid} {text} {name}{still}")


@command(
    "cancel",
    "jobboard cancel 3f2a",
    "jobboard cancel invoice:4711",
    "jobboard cancel --job-name remind --key-prefix order/4711/ --yes",
    "jobboard cancel --schedule nightly --state delayed --state unclaimed",
    "jobboard cancel 3f2a --with-children --dry-run",
)
@one_some_or_all
@by_and_note
@selectors(among=LIVE)
@pass_session
@may_take_children(lambda **_: ACTIONS["cancel"])
def cancel(session: Session, /, job: str | None, by: str, note: str | None, dry_run: bool, **which: Any) -> None:
    """Take jobs off the board; of those that are claimed, ask the owner to stop. Asks first unless it is one JOB."""
    if job is None or not is_for_one(dry_run):
        change_selected(session, ACTIONS["cancel"], by=by, note=note, job=job, dry_run=dry_run, **which)
        return
    board = session.board()
    found = find_job(board, job, LIVE)
    check_not_ended(found)
    outcome = ACTIONS["cancel"].act(board, targets_of([found]), by=by, reason=note)
    if outcome.unchanged:
        raise NotFound(outcome.unchanged[0])
    gone = not outcome.asked
    text = "is cancelled" if gone else "is claimed; its owner has been told"
    session.output.report({"uuid": found.uuid, "gone": gone}, f"{found.uuid} {text}")


_STATES = [state.value.lower() for state in JobState if state is not JobState.COMPLETE]


@command(
    "import",
    "jobboard import jobs.jsonl --dry-run",
    "jobboard export --details --board orders | jobboard import - --board redis://localhost",
    "jobboard import trash.jsonl --state trashed",
)
@click.argument("file")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES),
    help="Only jobs that were in this state; may be repeated. By default those that were on the board.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be posted.")
@pass_session
def import_(session: Session, /, file: str, states: Sequence[str], dry_run: bool) -> None:
    """Post the jobs of FILE (- for standard input), which export --details wrote, under their uuids, with no attempts.

    A job that the board has already, or remembers, is left as it is: the same file may be imported again. Stop the
    programs of the board that the jobs are from, or they run there as well.
    """
    text = read_text(source_of(file))
    found = exported_jobs(text, {JobState(state.upper()) for state in states} or LIVE)
    board = session.board_to_preview() if dry_run else session.board_to_change()
    with session.output.progress("importing", len(found.postings)) as step:
        outcome = import_jobs(board, found.postings, step, dry_run=dry_run)
    refused = found.refused + outcome.refused
    done = "importable" if dry_run else "imported"
    summary = f"{count(outcome.posted, 'job')} {done}"
    summary += f"; {outcome.there} known to the board already" if outcome.there else ""
    summary += f"; {found.others} in other states left out" if found.others else ""
    data = {done: outcome.posted, "there": outcome.there, "left_out": found.others, "refused": refused}
    session.output.report(data, summary)
    tell_refused(session, refused)


COMMANDS = (post, signal, cancel, import_)
