"""Posts jobs that no program of the board has: by a form, or by a request of a program in any language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from jobboard.console.view import View
from jobboard.errors import AlreadyPosted, BoardUnavailable, TooLarge
from jobboard.operate.durations import seconds_of
from jobboard.operate.json_values import parse_json
from jobboard.validation import check_text, check_uuid, new_uuid

if TYPE_CHECKING:
    from jobboard.job import Job


def post_checked(view: View, name: str, details: dict[str, Any] | None, **options: Any) -> Job:
    """Post a job whose details ``check_details`` lets pass; a uuid that was posted before is the job that is there.

    :param options: of :meth:`JobBoard.post`, as are the errors.
    :raises ValueError, TypeError: of ``check_details``, too.
    """
    check_text("name", name)
    if view.settings.check_details is not None:
        view.settings.check_details(name, {} if details is None else details)
    job: Job = view.board.post(name, details, **options)
    view.acted("post", [job.uuid])
    return job


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
}


def post_json(view: View) -> Response:
    """Post the job that the body of a request says, and answer with its uuid; a sentence says why it is refused."""
    try:
        given = parse_json(view.body.decode())
    except (ValueError, RecursionError) as error:
        return _refused(400, f"the body is no JSON that can be read: {error}")
    uuid: str | None = None
    try:
        name, details, options = _asked_for(given)
        uuid = options["uuid"]
        job = post_checked(view, name, details, **options)
    except TooLarge as error:
        return _refused(413, str(error))
    except BoardUnavailable as error:
        # It may be on the board. The same request with this uuid is safe.
        return _refused(503, str(error), uuid=uuid)
    except AlreadyPosted as error:
        return _refused(409, str(error), has_key=error.uuid)
    except (TypeError, ValueError, RecursionError) as error:
        return _refused(400, str(error))
    return JSONResponse({"uuid": job.uuid}, 201, {"Location": view.url(f"jobs/{job.uuid}")})


def _asked_for(given: object) -> tuple[str, dict[str, Any] | None, dict[str, Any]]:
    """Return the name, the details and the options, with a uuid.

    :raises TypeError, ValueError: says what is wrong with it.
    """
    if not isinstance(given, dict):
        raise TypeError('the body must be a JSON object, such as {"name": "mail", "details": {"to": "ann"}}')
    known = ("name", "details", *_OPTIONS)
    for field in given:
        if field not in known:
            raise ValueError(f"a job has no {field!r}; it has {', '.join(known)}")
    if "name" not in given:
        raise ValueError("the job has no name")
    details = given.get("details")
    if details is not None and not isinstance(details, dict):
        raise TypeError("details must be a JSON object")
    options = {field: read(given[field]) for field, read in _OPTIONS.items() if given.get(field) is not None}
    return given["name"], details, {**options, "uuid": check_uuid(options.get("uuid", new_uuid()))}


def _refused(status: int, text: str, **more: str | None) -> Response:
    return JSONResponse({"error": text, **more}, status)
