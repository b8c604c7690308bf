"""The users that a proxy in front of the console knows."""

from __future__ import annotations

from starlette.requests import Request


def forwarded_user(request: Request) -> str | None:
    """Return the user that the proxy names; None if it names none, or if there are two, of whom one is not its own."""
    names = request.headers.getlist("x-forwarded-user")
    return (names[0].strip() or None) if len(names) == 1 else None


def user_or_console(request: Request) -> str:
    """Return who stands in histories."""
    return forwarded_user(request) or "console"
