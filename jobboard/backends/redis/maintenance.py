"""What operators do to a board on Redis: pause and resume it, tidy it, audit it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jobboard.backends import roles
from jobboard.backends.findings import AuditFinding, Holder
from jobboard.backends.redis.checks import ServerChecks
from jobboard.backends.redis.client import MAX_STEPS, RedisClient, endless
from jobboard.backends.redis.codec import pack, pause_of, text_of
from jobboard.backends.redis.errors import is_of_wrong_type
from jobboard.backends.redis.key_types import WrongKey, wrong_types
from jobboard.backends.redis.limits import Limits, limits_of
from jobboard.backends.rows import Pause
from jobboard.backends.sweep import tidy_limits
from jobboard.errors import BoardUnavailable

#: How many keys of a wrong type an error names.
_MAX_NAMED = 20


class Maintenance(roles.Maintenance):
    """Each method is one script; an audit calls its script for a part of the board at a time."""

    def __init__(self, client: RedisClient, checks: ServerChecks, limits: Limits) -> None:
        self._client = client
        self._checks = checks
        self._limits = limits

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        self._client.change("pause", pack([name or "", by, reason]))

    def resume(self, name: str | None) -> None:
        self._client.change("resume", name or "")

    def paused(self) -> frozenset[str | None]:
        return frozenset(text_of(name) or None for name in self._client.read("paused")[1])

    def pauses(self) -> list[Pause]:
        _, names, pairs = self._client.read("pauses")
        entries = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return [pause_of(text_of(name) or None, entries.get(name, b"")) for name in names]

    def tidy(self, limit: int) -> int:
        """Delete up to ``limit`` things, and what was completed together with the last of them: up to 99 jobs more."""
        _, count, limits, now = self._client.read("tidy", str(limit))
        tidy_limits(self._limits, limits_of(limits), int(now) / 1e6)
        return int(count)

    def holders(self) -> list[Holder]:
        return []

    def server_version(self) -> str:
        return f"Redis {self._checks.facts().get('redis_version', '')}".rstrip()

    def audit(self, repair: bool) -> list[AuditFinding]:
        """Check every record first, and then the indexes that lead to records."""
        try:
            return self._audit(repair)
        except BoardUnavailable as error:
            if is_of_wrong_type(error) and (wrong := wrong_types(self._client)[:_MAX_NAMED]):
                raise _refusal(self._client.where, wrong) from None
            raise

    def _audit(self, repair: bool) -> list[AuditFinding]:
        # A look changes nothing that anybody relies on, and waits for no copies.
        call = self._client.change if repair else self._client.read
        findings: list[AuditFinding] = []
        cursor: bytes = b""
        for _ in range(MAX_STEPS):
            _, cursor, found, newer = call("audit", str(int(repair)), cursor)
            self._client.warn_of_newer(newer)
            findings += [
                AuditFinding(text_of(uuid) or None, text_of(problem), repaired=repair)
                for uuid, problem in zip(found[::2], found[1::2], strict=True)
            ]
            if not cursor:
                return findings
        raise endless("audit")


def _refusal(where: str, wrong: Sequence[WrongKey]) -> BoardUnavailable:
    told = ", ".join(f"{one.name} is a {one.type}, not a {one.wanted}" for one in wrong)
    delete = shlex.join(["redis-cli", "DEL", *(one.name for one in wrong)])
    return BoardUnavailable(
        f"{where}: another program has replaced what the board had there: {told}. Delete that ({delete}), and then "
        "repair: jobboard check --repair"
    )
