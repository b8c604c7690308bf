"""The operators' primitives in SQL, the participants and the books."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.base import Backend
from jobboard.backends.rows import AuditFinding, EntityRow, TrashOutcome, Verdict
from jobboard.backends.sql import sidelines, statements
from jobboard.backends.sql.auditing import audit
from jobboard.backends.sql.claiming import paused_names
from jobboard.backends.sql.database import Database
from jobboard.backends.sql.steps import find, settle, take_back, was_done, write_down, write_loose
from jobboard.backends.sql.transaction import Transaction
from jobboard.events import EventKind
from jobboard.states import JobState

_FORGET_AFTER = 86_400.0


class Operating(Backend):
    """Release, trash and restore, pause, tidy, audit, participants, books."""

    database: Database

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        with self.database.write() as transaction:
            settle(transaction)
            entry = find(transaction, uuid)
            if entry is not None and entry.state is JobState.CLAIMED and entry.token == token:
                take_back(transaction, entry, EventKind.RELEASED, reason)
                return Verdict.DONE
            return was_done(transaction, uuid, token, EventKind.RELEASED)

    def restore(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        with self.database.write() as transaction:
            settle(transaction)
            return [_restore(transaction, uuid) for uuid in uuids]

    def purge(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        with self.database.write() as transaction:
            settle(transaction)
            return [_purge(transaction, uuid) for uuid in uuids]

    def pause(self, name: str | None) -> None:
        with self.database.write() as transaction:
            if transaction.run(sidelines.PAUSE, name=name or ""):
                write_loose(transaction, EventKind.PAUSED, None, name)

    def resume(self, name: str | None) -> None:
        with self.database.write() as transaction:
            if transaction.run(sidelines.RESUME, name=name or ""):
                write_loose(transaction, EventKind.RESUMED, None, name)

    def paused(self) -> frozenset[str | None]:
        with self.database.read() as transaction:
            return paused_names(transaction)

    def tidy(self, limit: int) -> int:
        with self.database.write() as transaction:
            over = [row[0] for row in transaction.rows(statements.OVER, limit=limit)]
            if over:
                transaction.run(statements.DELETE_HISTORY, ids=transaction.list_of(over))
                transaction.run(statements.DELETE, ids=transaction.list_of(over))
            forgotten = transaction.run(sidelines.FORGET_ENTITIES, before=transaction.now - _FORGET_AFTER)
            transaction.run(statements.FORGET_LOOSE_LINES)
            # Done again and again on an idle board, and nothing that anybody waits for.
            transaction.changed = False
            return len(over) + forgotten

    def audit(self, repair: bool) -> list[AuditFinding]:
        with self.database.write() if repair else self.database.read() as transaction:
            return audit(transaction, repair)

    def put_entity(self, entity: EntityRow) -> None:
        with self.database.write() as transaction:
            transaction.run(sidelines.PUT_ENTITY, kind=entity.kind, name=entity.name, body=entity.body, ttl=entity.ttl)
            # Done again and again on an idle board, and nothing that anybody waits for.
            transaction.changed = False

    def remove_entity(self, kind: str, name: str) -> None:
        with self.database.write() as transaction:
            transaction.run(sidelines.REMOVE_ENTITY, kind=kind, name=name)

    def entities(self) -> list[EntityRow]:
        with self.database.read() as transaction:
            rows, now = transaction.rows(sidelines.ENTITIES), transaction.now
        return [
            EntityRow(kind, name, body, ttl, last_seen, last_seen + ttl - now)
            for kind, name, body, ttl, last_seen in rows
        ]

    def save_book(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        with self.database.write() as transaction:
            row = transaction.row(sidelines.BOOK_VERSION, uuid=uuid)
            present = row[0] if row else None
            if present not in (version, after):
                return False
            statement = sidelines.ADD_BOOK if row is None else sidelines.CHANGE_BOOK
            transaction.run(statement, uuid=uuid, body=body, version=version)
            return True

    def load_book(self, uuid: str) -> tuple[bytes, str] | None:
        with self.database.read() as transaction:
            row = transaction.row(sidelines.READ_BOOK, uuid=uuid)
        return None if row is None else (row[0], row[1])

    def destroy_book(self, uuid: str) -> bool:
        with self.database.write() as transaction:
            return transaction.run(sidelines.DESTROY_BOOK, uuid=uuid) > 0


def _restore(transaction: Transaction, uuid: str) -> TrashOutcome:
    entry = find(transaction, uuid)
    if entry is None:
        return TrashOutcome.MISSING
    if entry.state is not JobState.TRASHED:
        last = transaction.row(statements.LAST_OF_TRASH, id=entry.sequence)
        return TrashOutcome.REPEATED if last == (EventKind.RESTORED.value,) else TrashOutcome.MISSING
    if entry.key is not None and transaction.row(statements.FIND_KEY, name=entry.name, key=entry.key) is not None:
        return TrashOutcome.TAKEN
    transaction.do(statements.RESTORE, id=entry.sequence)
    write_down(transaction, EventKind.RESTORED, entry)
    return TrashOutcome.DONE


def _purge(transaction: Transaction, uuid: str) -> TrashOutcome:
    entry = find(transaction, uuid)
    if entry is None or entry.state is not JobState.TRASHED:
        return TrashOutcome.MISSING
    ids = transaction.list_of([entry.sequence])
    transaction.do(statements.DELETE_HISTORY, ids=ids)
    transaction.do(statements.DELETE, ids=ids)
    # Of a purged job only the event is left; it belongs to no job, and goes in its time.
    write_loose(transaction, EventKind.PURGED, entry.uuid, entry.name)
    return TrashOutcome.DONE
