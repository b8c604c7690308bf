"""The ASGI app: from a request to the page of a board."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from jobboard.board import JobBoard
from jobboard.console.boards import console_boards
from jobboard.console.guard import LOOPBACK, Guard
from jobboard.console.pages import all_pages
from jobboard.console.pages import boards as boards_page
from jobboard.console.refusals import accepts_json, refusal, sends_json
from jobboard.console.rights import Access, allow, check_rights
from jobboard.console.static_files import answer_with_file
from jobboard.console.view import Answer, OnAction, Page, Settings, View
from jobboard.errors import BoardUnavailable, JobBoardError, NotFound
from jobboard.job import Job
from jobboard.operate.sampling import Sampler
from jobboard.operate.verdict import Limits

#: Threads that ask the store of a board, and as many that ask for users. A store that hangs must not take those of
#: other boards, nor of the app that this one is mounted in.
_THREADS = 8
#: Bytes of a form, and of JSON: details may have 512 KiB, unless a board is opened with more.
_MAX_FORM, _MAX_JSON = 64 * 1024, 1024 * 1024
#: Seconds that either may take.
_BODY_TIMEOUT = 20.0


def app(
    boards: JobBoard | Iterable[JobBoard] | Mapping[str, JobBoard],
    *,
    access: Access | None = None,
    on_action: OnAction | None = None,
    who: Callable[[Request], str] | None = None,
    format_details: Callable[[Job], Any] | None = None,
    check_details: Callable[[str, dict[str, Any]], object] | None = None,
    hosts: Collection[str] = LOOPBACK,
    rates: bool = True,
    limits: Limits | None = None,
) -> ASGIApp:
    """Return the console of one or several boards, an ASGI app to be served or mounted; read-only by default.

    With the app's lifespan it begins to keep the history of each board; mounted, without one, when somebody looks.
    A board that is not connected is connected then. It stays its owner's, who closes it.

    :param boards: a board, several, or a dict of boards by their names in the console and in URLs.
    :param access: is given a request, and returns the :data:`RIGHTS` of its user, or None if it may not even look; a
        function, which runs in a thread, or a coroutine. None: anybody may look, and change nothing. See :func:`allow`.
    :param on_action: is called with who did which action (a right) to what (uuids, names, ids), after it is done.
    :param who: returns the name of a request's user, for histories, as ``access`` does; by default that of
        ``request.user``.
    :param format_details: returns what is shown of a job's details to users with the right ``details``, such as without
        passwords; it gets the :class:`~jobboard.Job`. None: all of them.
    :param check_details: is called with the name of a job and the details that a user has changed (right ``retry``), or
        that are posted here (``post``); a ValueError or TypeError that it raises is shown, and nothing is posted. Such
        as by your models: ``lambda name, details: MODELS[name](**details)``. None: the board's own checks only.
    :param hosts: the host names, without ports, under which it may be asked for; ``["*"]`` for any, where another part
        of the app checks them.
    :param rates: False: it does not listen to the board's events, which costs some stores much (see "Monitoring"), and
        knows neither how many jobs are posted, finished and failed a minute, nor how long they wait and run; and
        pages look every few seconds, instead of when something happens.
    :param limits: what the boards may do and still be well, :class:`jobboard.operate.verdict.Limits`; None for those of
        ``jobboard status``. Of several consoles of a board those of one count.
    :raises TypeError, ValueError: names the argument at fault.
    """
    given = {
        "access": access, "on_action": on_action, "who": who, "format_details": format_details,
        "check_details": check_details,
    }  # fmt: skip
    for name, function in given.items():
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be callable, not {type(function).__name__}")
    if isinstance(hosts, str) or not all(isinstance(host, str) and host for host in hosts):
        raise TypeError("hosts must be a list of names")
    if limits is not None and not isinstance(limits, Limits):
        raise TypeError(f"limits must be Limits, not {type(limits).__name__}")
    make_sampler = functools.partial(Sampler, listen=bool(rates), limits=limits)
    settings = Settings(
        console_boards(boards), access or allow(), who or _user_of, on_action, format_details, check_details,
        make_sampler, all_pages(), bool(rates),
    )  # fmt: skip
    dispatcher = _Dispatcher(settings)
    routes = [
        Route("/", dispatcher.endpoint(boards_page.show)),
        Route("/static/{path:path}", answer_with_file),
        *(_route(dispatcher, page) for page in settings.pages),
        _route(dispatcher, Page("{path:path}", _no_page)),
        Route("/{path:path}", dispatcher.endpoint(_no_page)),
    ]
    inner = Starlette(
        routes=routes,
        middleware=[Middleware(GZipMiddleware, minimum_size=1024)],
        exception_handlers={Exception: _bug},
        lifespan=dispatcher.lifespan,
    )
    return Guard(inner, hosts)


def _route(dispatcher: _Dispatcher, page: Page) -> Route:
    methods = ["GET"] if page.act is None and page.take is None else ["GET", "POST"]
    return Route(f"/b/{{board}}/{page.path}", dispatcher.endpoint(page.show, page), methods=methods)


def _no_page(view: View) -> Response:
    raise HTTPException(404, "there is no such page in this console")


class _Dispatcher:
    """Hands requests to the functions of pages, in threads, with what they need."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._threads: dict[object, anyio.CapacityLimiter] = {}

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        # What nobody looks at is counted, too: a console that was restarted at night has its charts in the morning.
        for board in self._settings.boards.values():
            board.part(self._settings.make_sampler).start()
        try:
            yield
        finally:
            for board in self._settings.boards.values():
                await self._run(board, board.close)

    def endpoint(self, show: Answer, page: Page | None = None) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            try:
                function = show if page is None else _what_answers(page, request)
                view = await self._view(request, page)
            except HTTPException as error:
                return refusal(request.headers, error.detail, error.status_code)
            try:
                if page is not None and view.entry is None:
                    raise HTTPException(404, "there is no such board in this console")
                if page is not None and request.method == "POST":
                    # Who only looks takes no memory, and no connection.
                    view.require_one((page.take_rights if function is page.take else ()) or page.rights)
                    view = await _with_body(view)
                # What is about no board has threads of its own, too: those that ask for users never wait.
                response: Response = await self._run(view.entry or function, function, view)
                return response
            except (HTTPException, JobBoardError) as error:
                status, text = _status_of(error)
                if page is not None and function in (page.take, page.tell):
                    return refusal(request.headers, text, status)
                heading = "The store does not answer" if status == 503 else HTTPStatus(status).phrase
                return view.render("error.html", status, text=text, heading=heading, retry=status == 503)

        return answer

    async def _view(self, request: Request, page: Page | None) -> View:
        rights = await self._run(None, self._settings.access, request)
        if rights is None:
            raise HTTPException(403, "you may not look at this console")
        entry = None if page is None else self._settings.boards.get(request.path_params["board"])
        who = await self._run(None, self._settings.who, request)
        return View(request, self._settings, _checked(rights), who, {}, page, entry)

    async def _run(self, what: object, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in one of the threads for ``what``, such as a board, or await a coroutine function."""
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        if what not in self._threads:
            self._threads[what] = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._threads[what])


def _checked(rights: Collection[str]) -> frozenset[str]:
    try:
        return check_rights(rights)
    except (TypeError, ValueError) as error:
        raise type(error)(f"what access= returned is wrong: {error}") from None


def _what_answers(page: Page, request: Request) -> Answer:
    """Return what answers a program or a browser; nothing of a page that takes forms is asked with JSON."""
    if request.method != "POST":
        return page.tell if page.tell is not None and accepts_json(request.headers) else page.show
    is_json = sends_json(request.headers)
    function = page.take if is_json else page.act
    if function is None and is_json:
        raise HTTPException(415, "this page takes no JSON")
    if function is None:
        raise HTTPException(405, "this page takes no form, but JSON (Content-Type: application/json)")
    return function


async def _with_body(view: View) -> View:
    if sends_json(view.request.headers):
        return replace(view, body=await _body_of(view.request, "JSON", _MAX_JSON))
    form = await _body_of(view.request, "a form", _MAX_FORM)
    return replace(view, form=parse_qs(form.decode(errors="replace"), keep_blank_values=True))


async def _body_of(request: Request, what: str, most: int) -> bytes:
    body = bytearray()
    try:
        with anyio.fail_after(_BODY_TIMEOUT):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise HTTPException(413, f"{what} may have {most} bytes")
    except TimeoutError:
        raise HTTPException(408, f"{what} must be sent within {_BODY_TIMEOUT:g} seconds") from None
    except ClientDisconnect:
        # Nobody reads this.
        raise HTTPException(400, f"{what} is not whole") from None
    return bytes(body)


def _status_of(error: Exception) -> tuple[int, str]:
    """Return the status and the text for what a page raised."""
    match error:
        case HTTPException():
            return error.status_code, error.detail
        case BoardUnavailable():
            return 503, str(error)
        case NotFound():
            return 404, str(error)
    return 409, str(error)


def _user_of(request: Request) -> str:
    """Return the name of the user that a middleware of Starlette's or Django's found."""
    user = request.scope.get("user")
    for attribute in ("username", "display_name", "email"):
        name = getattr(user, attribute, None)
        if isinstance(name, str) and name:
            return name
    return "console"


async def _bug(request: Request, error: Exception) -> Response:
    return refusal(request.headers, "this is a bug in the console, or in what its app calls; the log says more", 500)
