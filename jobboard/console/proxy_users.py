"""The users that a proxy in front of the console knows, and what a request without one may do."""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request

from jobboard.console.rights import Access, check_rights


def forwarded_user(request: Request) -> str | None:
    """Return the user that the proxy names; None if it names none, or if there are two, of whom one is not its own."""
    names = request.headers.getlist("x-forwarded-user")
    return (names[0].strip() or None) if len(names) == 1 else None


def user_or_console(request: Request) -> str:
    """Return who stands in histories."""
    return forwarded_user(request) or "console"


def proxy_access(rights: Collection[str], anonymous: Collection[str]) -> Access:
    """Return an ``access`` for requests that come from a proxy.

    :param rights: those of users whom the proxy names.
    :param anonymous: those of requests for which it names none.
    :raises ValueError: there is no such right.
    """
    known, unknown = check_rights(rights), check_rights(anonymous)
    return lambda request: unknown if forwarded_user(request) is None else known
