"""What is asked of a server before a board trusts it with jobs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from jobboard.backends.redis.faults import NO_RIGHT, lacking
from jobboard.backends.redis.options import Durability
from jobboard.backends.redis.server import Server
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.redis")

#: The first version with sharded publish and subscribe.
LEAST_VERSION = (7, 0)
#: The first version with WAITAOF.
AOF_VERSION = (7, 2)


def check_server(server: Server, durability: Durability, allow_eviction: bool) -> None:
    """Refuse a server that is too old or throws jobs away, and warn of one that keeps nothing.

    A user without the right to ask is believed to know.
    """
    info = _ask(server, "INFO", "everything")
    if info is None:
        return
    facts = dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)
    _check_version(server, facts.get("redis_version", ""))
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not allow_eviction:
        raise BoardUnavailable(
            f"Redis at {server.place} has maxmemory-policy {policy}, which would throw jobs away when memory runs out; "
            "set it to noeviction, or give the option allow_eviction=true"
        )
    is_appending = facts.get("aof_enabled", "0") == "1"
    if durability.disk and not is_appending:
        raise BoardUnavailable(f"durability=aof needs Redis at {server.place} to have appendonly yes")
    if durability.disk:
        server.writes_through = _has_always(server)
        _check_aof(server, facts.get("redis_version", ""))
    if not is_appending:
        _warn_if_nothing_is_saved(server)


def check_rights(server: Server, missing: Sequence[bytes]) -> None:
    """Refuse a user whose requests would end halfway, because some of a script's commands are denied to it."""
    if missing:
        rules = " ".join(rule.decode() for rule in missing)
        raise BoardUnavailable(f"Redis at {server.place} can't be used: {lacking(rules)}")


def _check_version(server: Server, text: str) -> None:
    version = _version_of(text)
    if version is None:
        logger.debug("Redis at %s says nothing of its version", server.place)
    elif version < LEAST_VERSION:
        raise BoardUnavailable(f"Redis at {server.place} is {text}; a board needs {_text(LEAST_VERSION)} or newer")


def _version_of(text: str) -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in text.split(".")[:2])
    except ValueError:
        return None


def _has_always(server: Server) -> bool:
    """Whether the server itself writes to its disk before it answers."""
    connection = server.connect()
    try:
        return server.sees_to_its_disk(connection)
    finally:
        connection.disconnect()


def _check_aof(server: Server, text: str) -> None:
    version = _version_of(text)
    if not server.writes_through and version is not None and version < AOF_VERSION:
        raise BoardUnavailable(
            f"durability=aof needs WAITAOF, which Redis has from {_text(AOF_VERSION)} on, or appendfsync always; "
            f"at {server.place} it is {text}. There is durability=wait:N:MS, which waits for replicas"
        )


def _warn_if_nothing_is_saved(server: Server) -> None:
    answer = _ask(server, "CONFIG", "GET", "save")
    if answer is not None and len(answer) == 2 and not answer[1]:
        logger.warning(
            "Redis at %s keeps nothing on disk (appendonly no, no save): all jobs are gone when it stops", server.place
        )


def _ask(server: Server, *command: str) -> Any:
    """Return the answer, or None if this user may not ask."""
    try:
        return server.send([command])[0]
    except BoardUnavailable as error:
        if NO_RIGHT not in str(error):
            raise
        logger.debug("start-up check skipped: %s", error)
        return None


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
