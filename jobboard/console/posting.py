"""Posts jobs that no program of the board has: by a form, or by a request of a program in any language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from jobboard.console.programs import json_of, refused
from jobboard.console.view import View
from jobboard.errors import AlreadyPosted, BoardUnavailable, NotFound, TooLarge
from jobboard.job import Posting
from jobboard.operate.durations import seconds_of
from jobboard.validation import check_text, check_uuid, new_uuid

if TYPE_CHECKING:
    from jobboard.job import Job


def post_checked(view: View, postings: Sequence[Posting]) -> list[Job]:
    """Post jobs whose details ``check_details`` lets pass; a uuid that was posted before is the job that is there.

    :raises ValueError, TypeError: of ``check_details``; else as :meth:`JobBoard.post_many`.
    """
    for posting in postings:
        check_text("name", posting.name)
        if view.settings.check_details is not None:
            view.settings.check_details(posting.name, {} if posting.details is None else posting.details)
    jobs = view.board.post_many(postings)
    view.acted("post", [job.uuid for job in jobs])
    return jobs


def _span(value: object) -> object:
    return seconds_of(value) if isinstance(value, str) else value


def _moment(value: object) -> object:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _as_it_is(value: object) -> object:
    return value


#: What a program may say of a job beside its name and details, as ``jobboard post`` has it, and how each is read.
_OPTIONS: Mapping[str, Callable[[object], object]] = {
    "uuid": _as_it_is,
    "key": _as_it_is,
    "if_exists": _as_it_is,
    "priority": _as_it_is,
    "lane": _as_it_is,
    "run_at": _moment,
    "delay": _span,
    "max_attempts": _as_it_is,
    "start_by": _moment,
    "key_for": _span,
    "max_delay": _span,
    "after": _as_it_is,
    "before": _as_it_is,
    "if_failed": _as_it_is,
}


def post_json(view: View) -> Response:
    """Post the job, or the jobs, of a request, and answer with uuids; a sentence says why nothing is posted."""
    given = json_of(view)
    is_batch = isinstance(given, dict) and "jobs" in given
    uuids: list[str] = []
    try:
        postings = _batch_of(given) if is_batch else [_posting_of(given)]
        _require_for_others(view, postings)
        uuids = [str(posting.uuid) for posting in postings]
        jobs = post_checked(view, postings)
    except TooLarge as error:
        return refused(413, str(error))
    except BoardUnavailable as error:
        # They may be on the board. The same request with these uuids is safe.
        return refused(503, str(error), **_named(uuids, is_batch))
    except AlreadyPosted as error:
        return refused(409, str(error), has_key=error.uuid)
    except NotFound as error:
        return refused(409, str(error))
    except (TypeError, ValueError, RecursionError) as error:
        return refused(400, str(error))
    where = view.url("jobs") if is_batch else view.url(f"jobs/{jobs[0].uuid}")
    return JSONResponse(_named([job.uuid for job in jobs], is_batch), 201, {"Location": where})


def _require_for_others(view: View, postings: Sequence[Posting]) -> None:
    """Refuse what changes jobs that wait, to users who could not cancel these and post others in their place."""
    if not view.may("cancel") and any(posting.if_exists == "replace" or posting.before for posting in postings):
        raise HTTPException(
            403, "if_exists \"replace\" and before change jobs that wait: you lack the right 'cancel' for that"
        )


def _named(uuids: list[str], is_batch: bool) -> dict[str, Any]:
    """Return the uuids as an answer has them; none of a request that was not read."""
    if is_batch:
        return {"uuids": uuids}
    return {"uuid": uuids[0]} if uuids else {}


def _batch_of(given: dict[str, Any]) -> list[Posting]:
    """Return the postings of several jobs, which name each other by their uuids.

    :raises TypeError, ValueError: says what is wrong with which of them.
    """
    if list(given) != ["jobs"] or not isinstance(given["jobs"], list) or not given["jobs"]:
        raise TypeError('several jobs are one field: {"jobs": [{"name": ...}, {"name": ...}]}')
    postings = []
    for number, each in enumerate(given["jobs"]):
        try:
            postings.append(_posting_of(each))
        except (TypeError, ValueError) as error:
            raise ValueError(f"jobs[{number}]: {error}") from None
    if len({posting.uuid for posting in postings}) < len(postings):
        raise ValueError("two of the jobs have the same uuid")
    return postings


def _posting_of(given: object) -> Posting:
    """Return the posting that JSON says, with a uuid.

    :raises TypeError, ValueError: says what is wrong with it.
    """
    if not isinstance(given, dict):
        raise TypeError('a job must be a JSON object, such as {"name": "mail", "details": {"to": "ann"}}')
    known = ("name", "details", *_OPTIONS)
    for field in given:
        if field not in known:
            raise ValueError(f"a job has no {field!r}; it has {', '.join(known)}")
    if "name" not in given:
        raise ValueError("the job has no name")
    details = given.get("details")
    if details is not None and not isinstance(details, dict):
        raise TypeError("details must be a JSON object")
    options: dict[str, Any] = {
        field: read(given[field]) for field, read in _OPTIONS.items() if given.get(field) is not None
    }
    for field in ("after", "before"):
        if not isinstance(options.get(field, []), list):
            raise TypeError(f"{field} must be a list of uuids")
    return Posting(given["name"], details, **{**options, "uuid": check_uuid(options.get("uuid", new_uuid()))})
