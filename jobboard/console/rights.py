"""What a user of the console may do beside looking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

#: Every right, and what it allows. Without any, one may look at everything but what jobs carry.
RIGHTS: Mapping[str, str] = {
    "details": "see what jobs carry: details, checkpoints, progress texts, results, signals",
    "cancel": "cancel jobs: off the board, or ask their owners to end",
    "release": "end the claims of jobs, of any owner",
    "run_now": "let delayed jobs be claimed at once",
    "signal": "send signals to jobs, such as an approval",
    "trash": "put jobs into the trash",
    "restore": "bring jobs back from the trash",
    "retry": "post jobs of the trash, and complete ones, anew with changed details; needs details, too",
    "post": "post jobs, of any name; to replace one that waits, or let it wait for others, needs cancel, too",
    "purge": "delete jobs from the trash for good",
    "pause": "pause a name, a lane, or the board",
    "resume": "end a pause",
    "limits": "set, change and remove limits of lanes and names",
    "quiet": "let a conductor claim no more, or again",
    "schedules": "pause, resume and fire schedules",
    "repair": "repair records that contradict each other",
}

Rights = Collection[str] | None
#: Tells the rights of a request; None: it may not even look. Plain functions run in a thread, coroutines in the loop.
Access = Callable[["Request"], Rights | Awaitable[Rights]]


def allow(*rights: str) -> Access:
    """Return an ``access`` that gives everybody who gets in these rights.

    :raises TypeError, ValueError: there is no such right.
    """
    known = check_rights(rights)
    return lambda _request: known


def allow_users(
    user_of: Callable[[Request], str | None],
    rights: Collection[str],
    own: Mapping[str, Collection[str]],
    anonymous: Collection[str] = (),
) -> Access:
    """Return an ``access`` that gives users these rights, and some of them others besides.

    :param user_of: returns whose request it is, or None.
    :param own: further rights, by users.
    :param anonymous: those of requests of nobody.
    :raises TypeError, ValueError: there is no such right.
    """
    known, unknown = check_rights(rights), check_rights(anonymous)
    by_user = {user: known | check_rights(further) for user, further in own.items()}

    def access(request: Request) -> Rights:
        user = user_of(request)
        return unknown if user is None else by_user.get(user, known)

    return access


def check_rights(rights: Collection[str]) -> frozenset[str]:
    """Return the rights as a set, also those named like their commands (``run-now``).

    :raises TypeError: they are none, such as a single name. :raises ValueError: there is no such right.
    """
    if isinstance(rights, str) or not isinstance(rights, Collection):
        raise TypeError(f"rights are a collection of names, such as {{'details'}}, not {type(rights).__name__}")
    named = {right.replace("-", "_"): right for right in rights}
    for right, given in named.items():
        if right not in RIGHTS:
            raise ValueError(f"there is no right {given!r}; there are {', '.join(RIGHTS)}")
    return frozenset(named)
