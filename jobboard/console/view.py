"""What a page gets for one request: the board, what the user may do, links, and templates."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from jobboard.console.boards import ConsoleBoard
from jobboard.console.guard import ROOT
from jobboard.console.rights import RIGHTS, Access
from jobboard.console.static_files import static_files
from jobboard.console.templating import environment
from jobboard.text import in_one_line

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job
    from jobboard.operate.sampling import Sampler

Part = TypeVar("Part")

#: Hears of every action: who did it, what (a right), and to what: uuids, names, ids.
OnAction = Callable[[str, str, Sequence[str]], object]

logger = logging.getLogger("jobboard.console")


#: Makes the answer to a request. A plain function may block: it runs in a thread. A coroutine must not.
Answer = Callable[["View"], Response | Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Page:
    """One path below a board's ``/b/NAME/``.

    :ivar path: as Starlette's routes have it, with no slash first: ``jobs``, ``jobs/{uuid}``; empty for the overview.
    :ivar show: answers GET.
    :ivar tell: answers a GET that accepts JSON only, by JSON; None for a page that has none.
    :ivar act: answers POST; must ask ``view.require(...)`` for a right before it changes anything.
    :ivar take: answers a POST of JSON, by JSON; it is for programs, which send no headers of a browser.
    :ivar rights: one of them is needed for a POST, and asked for before its body is read; () if none is.
    :ivar take_rights: the same for one of JSON; () if they are no others.
    :ivar title: its entry in the navigation; None for none.
    :ivar order: the place in the navigation; the smallest comes first.
    """

    path: str
    show: Answer
    act: Answer | None = None
    take: Answer | None = None
    tell: Answer | None = None
    rights: tuple[str, ...] = ()
    take_rights: tuple[str, ...] = ()
    title: str | None = None
    order: int = 100


@dataclass(frozen=True, slots=True)
class Settings:
    """What an app was made with."""

    boards: Mapping[str, ConsoleBoard]
    access: Access
    who: Callable[[Request], str]
    on_action: OnAction | None
    format_details: Callable[[Job], Any] | None
    #: Raises what is shown to the user who has changed the details of a job of this name.
    check_details: Callable[[str, dict[str, Any]], object] | None
    #: Always the same object, since each board makes its parts once by what makes them.
    make_sampler: Callable[[JobBoard], Sampler]
    pages: Sequence[Page]
    #: Whether pages may listen to events.
    is_live: bool = True


@dataclass(frozen=True, slots=True)
class View:
    """One request.

    :ivar rights: what the user may do; see :data:`~jobboard.console.RIGHTS`.
    :ivar who: the user, for histories.
    :ivar form: the fields of a POST, each with all its values.
    :ivar body: of a POST of JSON.
    :ivar page: None outside of a board, such as in the list of boards.
    """

    request: Request
    settings: Settings
    rights: Collection[str]
    who: str
    form: Mapping[str, list[str]]
    page: Page | None = None
    entry: ConsoleBoard | None = None
    body: bytes = b""

    @property
    def board(self) -> JobBoard:
        """The board of this request, connected; may block.

        :raises BoardUnavailable, NotFound: as :meth:`JobBoard.connect`.
        """
        assert self.entry is not None
        return self.entry.open()

    def part(self, make: Callable[[JobBoard], Part]) -> Part:
        """Return what ``make`` makes of the board, once for all requests, such as a sampler."""
        assert self.entry is not None
        return self.entry.part(make)

    def may(self, right: str) -> bool:
        """Whether the user has a right; ValueError for one that does not exist."""
        if right not in RIGHTS:
            raise ValueError(f"there is no right {right!r}")
        return right in self.rights

    def require(self, right: str) -> None:
        """Refuse the request with 403 if the user lacks a right."""
        if not self.may(right):
            raise HTTPException(403, f"you lack the right {right!r} here: to {RIGHTS[right]}")

    def require_one(self, rights: Sequence[str]) -> None:
        """Refuse the request with 403 if the user has none of these rights, of which there are some."""
        if rights and not any(map(self.may, rights)):
            self.require(rights[0])

    def query(self, name: str) -> str:
        """Return a parameter of the URL as it is; the last one of several; "" if there is none."""
        values = self.request.query_params.getlist(name)
        return values[-1] if values else ""

    def typed(self, name: str) -> str:
        """Return a parameter that users type, without blanks around it. Names and ids may begin or end with one."""
        return self.query(name).strip()

    def field(self, name: str) -> str:
        """Return a field of the POST likewise."""
        return self.form.get(name, [""])[-1]

    @property
    def reason(self) -> str | None:
        """Why the user does what the POST asks for, if the form has asked and the user has said it."""
        return self.field("reason").strip() or None

    def url(self, path: str = "", **query: Any) -> str:
        """Return a link below the board, such as ``view.url("jobs", state="trashed")``; leaves None and "" out."""
        below = f"b/{self.entry.slug}/{quote(path)}" if self.entry else quote(path)
        return self.root_url(below, **query)

    def root_url(self, path: str = "", **query: Any) -> str:
        """Return a link below the console."""
        given = [(name, value) for name, value in query.items() if value is not None and value not in ("", [], ())]
        text = urlencode(given, doseq=True)
        return f"{self.request.scope[ROOT]}/{path}{'?' * bool(text)}{text}"

    def static(self, name: str) -> str:
        """Return the link of a static file, by its path such as ``vendor/htmx.min.js``."""
        return self.root_url(f"static/{name}", v=static_files()[name].version)

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page: a template that extends ``base.html``; it sees this view as ``view``."""
        page = environment().get_template(template)
        return HTMLResponse(
            page.render(view=self, boards=self.settings.boards, pages=self.settings.pages, **values), status
        )

    def acted(self, action: str, targets: Sequence[str]) -> None:
        """Log an action that was done, and tell it to ``on_action``.

        :param action: the right that it needed.
        :param targets: uuids, names or ids.
        """
        shown = in_one_line(", ".join(targets[:10]) + ", ..." * (len(targets) > 10))
        logger.info("%s: %s of %d: %s", in_one_line(self.who), action, len(targets), shown)
        if self.settings.on_action is not None:
            try:
                self.settings.on_action(self.who, action, targets)
            except Exception:
                logger.exception("on_action failed for %s by %s", action, in_one_line(self.who))
