"""One job: its history, why it does not run, what it carries, and what can be done to it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.responses import Response

from jobboard.console.carried import MAX_SHOWN, as_json, brief_value, carried_of
from jobboard.console.programs import CHANGES, change_job, tell_job
from jobboard.console.runs import progress_of
from jobboard.console.shared import Message, answers_of, checked, message_of
from jobboard.console.timeline import Row, rows_of
from jobboard.console.view import Page, View
from jobboard.errors import NotFound
from jobboard.events import EventKind
from jobboard.graph.blocked import awaited_signal
from jobboard.job import row_of
from jobboard.operate.anew import ENDED, find_anew
from jobboard.operate.attempts import attempts_of
from jobboard.operate.bulk import ACTIONS, target_of
from jobboard.operate.claimed_since import last_claim_in
from jobboard.operate.flow import flow_of, timeline_of
from jobboard.operate.json_values import parse_json
from jobboard.operate.reason import Reason
from jobboard.operate.restoring import holder_of_key
from jobboard.operate.why import why
from jobboard.states import LIVE, JobState
from jobboard.validation import check_text

if TYPE_CHECKING:
    from jobboard.job import Job

#: How many parents in the trash are shown.
_MAX_PARENTS = 5
#: What is asked for twice.
_GRAVE = {"cancel", "trash", "purge"}


def show(view: View) -> Response:
    """Show a job."""
    return _shown(view, job_of(view))


def act(view: View) -> Response:
    """Do what a form of the page asks for; ask again before what can't be undone."""
    right = view.field("action")
    if right not in {*ACTIONS, "signal"}:
        raise HTTPException(400, "there is no such action")
    view.require(right)
    job = job_of(view)
    if right == "signal":
        return _shown(view, view.board.get(job.uuid), _send_signal(view, job))
    action = ACTIONS[right]
    if right in _GRAVE and view.field("confirmed") != "yes":
        return view.render("job_confirm.html", job=job, right=right, action=action, token=view.field("token"))
    # The claim that was seen is the one to end.
    token = view.field("token")
    seen = int(token) if token.isdecimal() and len(token) < 20 else job.record.token
    target = replace(target_of(row_of(job)), token=seen)
    outcome = action.act(view.board, [target], by=view.who, reason=view.reason)
    if outcome.changed:
        view.acted(right, outcome.changed)
        answers_of(view).forget()
    message = message_of(action, [target], outcome)
    try:
        return _shown(view, view.board.get(job.uuid), message, 200 if outcome.done else 409)
    except NotFound:
        return view.render("job_gone.html", 200 if outcome.done else 409, uuid=job.uuid, message=message)


def _send_signal(view: View, job: Job) -> Message:
    """Send the signal of the form; its value is JSON, or nothing."""
    name, text = checked(check_text, "name", view.field("name")), view.field("value").strip()
    try:
        value = parse_json(text) if text else None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the value is no JSON that can be read: {error}") from None
    if not view.board.signal(job, name, value, by=view.who):
        return Message("warn", f"The signal {name} was sent before, and its first value stays.")
    view.acted("signal", [job.uuid])
    answers_of(view).forget()
    if (awaited := awaited_signal(row_of(job))) not in (None, name):
        return Message("warn", f"The signal {name} is sent. The job goes on waiting for the signal {awaited}.")
    return Message("good", f"The signal {name} is sent.")


def _shown(view: View, job: Job, message: Message | None = None, status: int = 200) -> Response:
    reasons = why(view.board, job)
    flow, has_ended = flow_of(view.board, job), job.record.state in ENDED
    return view.render(
        "job.html",
        status,
        job=job,
        flow=flow,
        timeline=timeline_of(flow, partial(brief_value, view) if view.may("details") else None),
        awaited=awaited_signal(row_of(job)),
        takes_signals=view.may("signal") and job.record.state in LIVE and view.board.capabilities.edges,
        message=message,
        graves=_GRAVE,
        sentences=[_sentence(view, reason) for reason in reasons],
        wider=[reason.limit for reason in reasons if reason.limit] if view.may("limits") else [],
        failed_parents=_failed_parents(view, reasons),
        actions=[(right, one) for right, one in ACTIONS.items() if view.may(right) and job.record.state in one.states],
        holder=holder_of_key(view.board, job.name, job.key) if job.record.state is JobState.TRASHED else None,
        may_retry=has_ended and view.may("retry") and view.may("details"),
        anew=find_anew(view.board, job) if has_ended else None,
        carried=_carried(view, job) if view.may("details") else None,
        progress=progress_of(job),
        attempts=_attempts(job),
        runs_since=last_claim_in(job.record.history) if job.record.state is JobState.CLAIMED else None,
        is_whole=_is_whole(job),
        every_state=[state.value.lower() for state in JobState],
        steps=_steps(job),
    )


def job_of(view: View) -> Job:
    """Return the job that the path names.

    :raises HTTPException: it names none. :raises NotFound: there is no such job.
    """
    try:
        uuid = str(UUID(view.request.path_params["uuid"]))
    except ValueError:
        raise HTTPException(404, "that is no uuid of a job") from None
    return view.board.get(uuid)


def _sentence(view: View, reason: Reason) -> tuple[str, str]:
    """Return a reason, and what to type, without the command that a button or a link of the page stands for."""
    is_double = (reason.kind in ("trashed", "parent_failed") and view.may("restore")) or (
        reason.limit is not None and view.may("limits")
    )
    return reason.said, "" if is_double else reason.cure


def _failed_parents(view: View, reasons: Sequence[Reason]) -> list[Job]:
    """Return the jobs in the trash that a job waits for, of those that the reasons name; one request for each."""
    found = []
    for uuid in dict.fromkeys(reason.parent for reason in reasons if reason.parent):
        with contextlib.suppress(NotFound):
            found.append(view.board.get(uuid))
    return [job for job in found if job.record.state is JobState.TRASHED][:_MAX_PARENTS]


def _carried(view: View, job: Job) -> list[tuple[str, str]]:
    """Return what the job carries, as JSON; details as ``format_details`` shows them."""
    parts, large = carried_of(view, job, MAX_SHOWN)
    if (told := progress_of(job)) and not told.rest:
        parts.pop("progress", None)
    elsewhere = f"bytes are too many for this page; see: jobboard show --details {job.uuid}"
    texts = {name: as_json(value) for name, value in parts.items() if value is not None}
    texts |= {name: f"{size:,} {elsewhere}" for name, size in large.items()}
    return [
        (name.capitalize(), texts[name]) for name in ("details", "checkpoint", "progress", "result") if name in texts
    ]


def _attempts(job: Job) -> list[Row]:
    record = job.record
    return rows_of(attempts_of(record.history, record.state), _is_whole(job), datetime.now(UTC))


def _is_whole(job: Job) -> bool:
    """Whether its history goes back to its post."""
    return job.record.history[:1] != () and job.record.history[0].kind is EventKind.POSTED


def _steps(job: Job) -> list[tuple[Any, float | None]]:
    """Return the lines of the history, the last one first, each with the seconds since the line before."""
    lines = job.record.history
    before = [None, *lines[:-1]]
    pairs = zip(lines, before, strict=True)
    return [(line, None if one is None else (line.at - one.at).total_seconds()) for line, one in pairs][::-1]


def tell(view: View) -> Response:
    return tell_job(view, job_of(view))


def take(view: View) -> Response:
    return change_job(view, job_of(view))


PAGES = (Page("jobs/{uuid}", show, act, take, tell, rights=(*ACTIONS, "signal"), take_rights=tuple(CHANGES)),)
