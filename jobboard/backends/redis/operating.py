"""The operators' primitives, and what participants and books need."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.redis.client import MOST_STEPS, Client, endless
from jobboard.backends.redis.wire import micros, pack, text_of
from jobboard.backends.rows import AuditFinding, EntityRow, TrashOutcome, Verdict

_RESTORED = {restored.name.encode(): restored for restored in TrashOutcome}
_VERDICTS = {verdict.name.encode(): verdict for verdict in Verdict}


class Operating(Client):
    """Break claims, bring back from the trash, pause, tidy, check."""

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return _VERDICTS[self._change("release", pack([uuid, min(token, 2**62), reason]))[1]]

    def restore(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        return [_RESTORED[answer] for answer in self._change_all("restore", uuids)]

    def purge(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        return [_RESTORED[answer] for answer in self._change_all("purge", uuids)]

    def pause(self, name: str | None) -> None:
        self._change("pause", name or "")

    def resume(self, name: str | None) -> None:
        self._change("resume", name or "")

    def paused(self) -> frozenset[str | None]:
        return frozenset(text_of(name) or None for name in self._look("paused")[1])

    def tidy(self, limit: int) -> int:
        return int(self._look("tidy", limit)[1])

    def audit(self, repair: bool) -> list[AuditFinding]:
        """Look at every record first, and then at whatever leads to records."""
        findings: list[AuditFinding] = []
        step: bytes = b""
        for _ in range(MOST_STEPS):
            _, step, found, newer = self._change("audit", int(repair), step)
            self._leave(newer)
            findings += [
                AuditFinding(text_of(uuid) or None, text_of(problem), repaired=repair)
                for uuid, problem in zip(found[::2], found[1::2], strict=True)
            ]
            if not step:
                return findings
        raise endless("audit")

    # -- participants and books ------------------------------------------------------------------------------------

    def put_entity(self, entity: EntityRow) -> None:
        self._change("put_entity", f"{entity.kind}\n{entity.name}", micros(entity.ttl), entity.body)

    def remove_entity(self, kind: str, name: str) -> None:
        self._change("remove_entity", f"{kind}\n{name}")

    def entities(self) -> list[EntityRow]:
        _, now, found = self._look("entities")
        entities = []
        for who, body, *times in zip(*[iter(found)] * 4, strict=True):
            kind, _, name = text_of(who).partition("\n")
            seen, ttl = map(int, times)
            left = (seen + ttl - now) / 1e6
            entities.append(EntityRow(kind, name, body, ttl / 1e6, last_seen=seen / 1e6, expires_in=left))
        return entities

    def save_book(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        return bool(self._change("save_book", uuid, body, version, after or "")[0] == b"OK")

    def load_book(self, uuid: str) -> tuple[bytes, str] | None:
        status, *book = self._look("load_book", uuid)
        return None if status == b"MISSING" else (book[0], text_of(book[1]))

    def destroy_book(self, uuid: str) -> bool:
        return bool(self._change("destroy_book", uuid)[0] == b"OK")
