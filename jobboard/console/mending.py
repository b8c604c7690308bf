"""What mends each kind of finding: a button for those who may press it, else a command, and the page to look at."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobboard.operate.pasting import argument

if TYPE_CHECKING:
    from jobboard.console.view import View

#: The page for each kind of finding; for ``store`` there is none.
PAGES = {
    **dict.fromkeys(("no_conductor", "one_name", "waits_long", "name_paused", "board_paused"), "names"),
    **dict.fromkeys(("lane_paused", "lane_idle", "lane_held"), "lanes"),
    **dict.fromkeys(
        ("unhealthy", "stuck", "unsent", "runs_long", "conductor_gone", "fewer_conductors", "silent", "no_scheduler"),
        "conductors",
    ),
    **dict.fromkeys(("overdue", "set_aside", "skips", "misses", "no_handler"), "schedules"),
    **dict.fromkeys(("schedulers_paused", "schedule_paused"), "schedules"),
    **dict.fromkeys(("parent_failed", "not_begun"), "jobs"),
    **dict.fromkeys(("failing", "parents_failed", "trash"), "trash"),
    **dict.fromkeys(("held_back", "short", "not_durable", "clock"), "health"),
}

_CONDUCTOR, _SCHEDULER = "jobboard conductor MODULE:HANDLERS", "jobboard scheduler"
#: The command for each kind whose text has none, and that no page stands for; ``{argument}`` or
#: ``{value}`` is what the finding is about.
COMMANDS = {
    **dict.fromkeys(("no_conductor", "lane_idle", "waits_long", "no_handler"), _CONDUCTOR),
    **dict.fromkeys(("no_scheduler", "overdue"), _SCHEDULER),
    "board_paused": "jobboard resume",
    "name_paused": "jobboard resume {argument}",
    "lane_paused": "jobboard resume --lane {value}",
}
#: How the links to these pages are called.
_OPENS = {
    "names": "Open names", "lanes": "Open lanes", "conductors": "Open conductors", "schedules": "Open schedules",
    "jobs": "Open the job", "trash": "Open the trash", "health": "Open health",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Button:
    """A form of one button: it sends ``fields`` to ``url``."""

    label: str
    url: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Mend:
    """What helps.

    :ivar link: where an operator goes next.
    :ivar opens: what that is called.
    :ivar button: what mends it at once.
    :ivar command: for a terminal.
    """

    link: str | None = None
    opens: str = ""
    button: Button | None = None
    command: str | None = None


def filled(command: str, about: str) -> str:
    """Return one of :data:`COMMANDS` with what it is about."""
    return command.format(argument=argument(about), value=shlex.quote(about))


def mend_of(view: View, kind: str, about: str | None) -> Mend:
    """Return what mends a finding, as far as this user may; a button stands for its command."""
    page = PAGES.get(kind)
    link, opens = page and _link_of(view, page, about), _OPENS.get(page or "", "")
    if kind == "one_name" and view.may("limits"):
        link, opens = view.url("lanes/limit", name=about), "Set its limit"
    if button := _button(view, kind, about or ""):
        return Mend(link, opens, button)
    command = COMMANDS.get(kind)
    return Mend(link, opens, None, command and filled(command, about or ""))


def _link_of(view: View, page: str, about: str | None) -> str:
    if page == "jobs":
        return view.url(f"jobs/{about}")
    return view.url(page, **{"name" if page == "trash" else "q": about})


def _button(view: View, kind: str, about: str) -> Button | None:
    match kind:
        case "name_paused" | "board_paused" if view.may("resume"):
            return Button("Resume", view.url("names", q=about), {"action": "resume", "name": about})
        case "lane_paused" if view.may("resume"):
            return Button("Resume", view.url("lanes", q=about), {"action": "resume", "lane": about})
        case "parent_failed" if view.may("restore"):
            return Button("Restore", view.url(f"jobs/{about}"), {"action": "restore"})
    return None
