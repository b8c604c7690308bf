"""The least rights that a board needs on Redis, as the documentation says them."""

from __future__ import annotations

import re
from pathlib import Path

from servers.redis_servers import RedisServer

PAGE = Path(__file__).parent.parent.parent / "doc" / "backends" / "redis.rst"

#: The documentation's user, and its password.
USER = ("jobboard", "SECRET")


def least_rights() -> list[str]:
    """Return the rules of the documentation's ``user`` line."""
    found = re.search(r"^ *user jobboard (on >SECRET .*?)\n\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, "the documentation shows no user line"
    return found[1].replace("\\\n", " ").split()


def allow_least_rights(server: RedisServer, *more: str) -> None:
    """Make the user on a server; ``more`` are further rules."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", USER[0], "reset", *least_rights(), *more)
