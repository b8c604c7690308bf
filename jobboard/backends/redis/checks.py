"""Checks of a server before a board trusts it with jobs."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from jobboard.backends.findings import Persistence
from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.connection import Connection
from jobboard.backends.redis.errors import NO_COMMAND, NO_RIGHT, missing_rights
from jobboard.backends.redis.options import Durability
from jobboard.backends.redis.pool import ConnectionPool
from jobboard.backends.warn_once import warn_once
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.redis")

#: The first version with sharded publish and subscribe.
MIN_VERSION = (7, 0)
#: The first version with WAITAOF.
AOF_VERSION = (7, 2)

#: The settings that say what is kept.
_KEEPING = ("appendonly", "appendfsync", "save", "maxmemory-policy")
#: What the names of those policies begin with that evict keys without a TTL, too, as jobs are.
_EVICTS_ALL = "allkeys-"
#: What a crash costs, by ``appendfsync``.
_COSTS = {
    b"everysec": "a crash of its machine loses about the last second (appendfsync everysec)",
    b"no": "a crash of its machine loses what the system has not written yet (appendfsync no)",
}
_NOTHING_KEPT = (
    "keeps nothing on disk (appendonly no, no save): all jobs, limits, pauses and schedules are gone when it stops"
)
_REMEDY = "To keep them: CONFIG SET appendonly yes, and the same in its configuration; of its replicas, too"
#: https://github.com/redis/redis/issues/14541
_NOT_LOADED = (
    "loads its AOF with the rights of the user default, who may not write: all jobs since its last rewrite are "
    "gone when it starts again, unless its version asks for no rights then. To keep them: ACL SETUSER default ~* &* "
    "+@all, and the same in its configuration; default may stay off"
)


class ServerChecks:
    """Refuses a server that is too old, may throw jobs away, or lacks what the durability needs.

    What this user may not ask is skipped: whoever wrote its rules is believed to know the server.
    """

    def __init__(self, client: RedisClient, pool: ConnectionPool, durability: Durability, allow_eviction: bool) -> None:
        self._client = client
        self._pool = pool
        self._durability = durability
        self._allow_eviction = allow_eviction

    @property
    def _where(self) -> str:
        return str(self._pool.topology)

    def check_server(self) -> None:
        """Refuse a server that can't be trusted, and warn of one that keeps nothing on disk."""
        self._client.writes_through = False
        facts = self.facts()
        if not facts:
            return
        version = facts.get("redis_version", "")
        self._check_version(version)
        self._check_eviction(facts.get("maxmemory_policy", "noeviction"))
        is_appending = facts.get("aof_enabled", "0") == "1"
        if self._durability.disk:
            self._check_disk(is_appending, version)
        if not is_appending:
            self._warn_if_nothing_is_saved()
        elif not self._loads_its_log():
            warn_once(logger, f"Redis at %s {_NOT_LOADED}", self._where)

    def facts(self, *sections: str) -> dict[str, str]:
        """Return what the server says of itself; {} if this user may not ask."""
        info = self._ask("INFO", *(sections or ("everything",)))
        return dict(line.split(":", 1) for line in (info or b"").decode().splitlines() if ":" in line)

    def check_rights(self) -> None:
        """Refuse a user who may not call some command of the scripts, which would fail halfway."""
        command = self._durability.command
        needed = [] if command is None or self._client.writes_through else [command[0]]
        missing: Sequence[bytes] = self._client.read("rights", *needed)[1]
        if missing:
            rules = " ".join(rule.decode() for rule in missing)
            raise BoardUnavailable(f"Redis at {self._where} can't be used: {missing_rights(rules)}")

    def _check_version(self, text: str) -> None:
        version = _version_of(text)
        if version is None:
            logger.debug("Redis at %s does not tell its version", self._where)
        elif version < MIN_VERSION:
            raise BoardUnavailable(f"Redis at {self._where} is {text}; a board needs {_text(MIN_VERSION)} or newer")

    def _check_eviction(self, policy: str) -> None:
        if policy != "noeviction" and not self._allow_eviction:
            raise BoardUnavailable(
                f"Redis at {self._where} has maxmemory-policy {policy}, which would throw jobs away when memory runs "
                "out; set it to noeviction, or give the option allow_eviction=true"
            )

    def _check_disk(self, is_appending: bool, text: str) -> None:
        """Refuse a server that can't say when a change is on its disk."""
        if not is_appending:
            raise BoardUnavailable(f"durability=aof needs Redis at {self._where} to have appendonly yes")
        connection = self._pool.connect()
        try:
            self._client.writes_through = self._writes_through(connection)
        finally:
            connection.disconnect()
        version = _version_of(text)
        if self._client.writes_through:
            # Every new connection may lead to another server.
            self._pool.check = self._insist_on_writing_through
        elif version is not None and version < AOF_VERSION:
            raise BoardUnavailable(
                f"durability=aof needs WAITAOF, which Redis has from {_text(AOF_VERSION)} on, or appendfsync always; "
                f"at {self._where} it is {text}. There is durability=wait:N:MS, which waits for replicas"
            )

    def _insist_on_writing_through(self, connection: Connection) -> None:
        if not self._writes_through(connection):
            raise BoardUnavailable(f"Redis at {self._where} has appendonly yes and appendfsync always no more")

    def _writes_through(self, connection: Connection) -> bool:
        """Whether this server writes to its disk before it replies; False too if this user may not ask."""
        [answer] = self._pool.exchange(connection, [("CONFIG", "GET", "append*")])
        if isinstance(answer, Exception):
            return False
        settings = _settings_in(answer)
        return settings.get(b"appendonly") == b"yes" and settings.get(b"appendfsync") == b"always"

    def persistence(self) -> Persistence:
        """Return what the server keeps, in memory and on disk.

        A request, another one if it has an AOF or tells no settings, and another one if it may evict jobs.
        """
        settings = _settings_in(self._ask("CONFIG", "GET", *_KEEPING) or [])
        facts = {} if settings else self.facts("memory", "persistence", "stats")
        kept = self._kept_on_disk(settings, facts)
        policy = settings.get(b"maxmemory-policy", b"").decode() or facts.get("maxmemory_policy", "")
        if not policy.startswith(_EVICTS_ALL):
            return kept
        evicted = int((facts or self.facts("stats")).get("evicted_keys", 0))
        so_far = f" (it has evicted {evicted} keys since it started)" if evicted else ""
        policy_text = f"has maxmemory-policy {policy}, which throws jobs away when memory runs out{so_far}"
        cure = "To keep them: CONFIG SET maxmemory-policy noeviction, and the same in its configuration"
        also = f". {kept.text}" if kept.kept is False else ""
        return Persistence(False, f"Redis at {self._where} {policy_text}. {cure}{also}")

    def _kept_on_disk(self, settings: Mapping[bytes, bytes], facts: Mapping[str, str]) -> Persistence:
        if settings.get(b"appendonly") == b"yes":
            if not self._loads_its_log():
                return Persistence(False, f"Redis at {self._where} {_NOT_LOADED}")
            return Persistence(True, _COSTS.get(settings.get(b"appendfsync", b""), ""))
        if settings.get(b"save"):
            return Persistence(True, "a crash of the server loses all since its last snapshot (appendonly no)")
        if b"save" in settings:
            return Persistence(False, f"Redis at {self._where} {_NOTHING_KEPT}. {_REMEDY}")
        if facts.get("aof_enabled") == "1":
            return Persistence(True)
        return Persistence(None, f"Redis at {self._where} does not tell this user what it keeps on disk (CONFIG GET)")

    def _warn_if_nothing_is_saved(self) -> None:
        if _settings_in(self._ask("CONFIG", "GET", "save") or []).get(b"save") == b"":
            warn_once(logger, f"Redis at %s {_NOTHING_KEPT}", self._where)

    def _loads_its_log(self) -> bool:
        """Whether the server may do again what scripts have written; True too if this user may not ask."""
        return self._ask("ACL", "DRYRUN", "default", "HSET", self._client.key, "", "") in (None, b"OK")

    def _ask(self, *command: str) -> Any:
        """Return the reply, or None if this user may not ask, or nobody: providers remove CONFIG."""
        try:
            return self._client.send([command])[0]
        except BoardUnavailable as error:
            if NO_RIGHT not in str(error) and NO_COMMAND not in str(error):
                raise
            logger.debug("start-up check skipped: %s", error)
            return None


def _settings_in(answer: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the settings in a reply to ``CONFIG GET``, which has names and values in turn."""
    return dict(zip(answer[::2], answer[1::2], strict=True))


def _version_of(text: str) -> tuple[int, ...] | None:
    try:
        return tuple(int(part) for part in text.split(".")[:2])
    except ValueError:
        return None


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
