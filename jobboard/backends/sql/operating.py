"""The operators' primitives in SQL, the participants and the books."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backend import RETRY_WINDOW, Backend
from jobboard.backends.sql import statements
from jobboard.backends.sql.claiming import paused_names
from jobboard.backends.sql.database import Database, Transaction
from jobboard.backends.sql.rows import entry_of
from jobboard.backends.sql.steps import find, line, settle, take_back, write_down
from jobboard.entry import EntityEntry, Finding, Hold, JobState, Restored, Verdict
from jobboard.events import EventKind

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
            return was_released(transaction, Hold(uuid, "", token))

    def restore(self, uuids: Sequence[str]) -> list[Restored]:
        with self.database.write() as transaction:
            settle(transaction)
            return [_restore(transaction, uuid) for uuid in uuids]

    def purge(self, uuids: Sequence[str]) -> list[Restored]:
        with self.database.write() as transaction:
            return [_purge(transaction, uuid) for uuid in uuids]

    def pause(self, name: str | None) -> None:
        with self.database.write() as transaction:
            if transaction.run(statements.PAUSE, name=name or ""):
                transaction.run(statements.WRITE, **line(EventKind.PAUSED, None, None, name))

    def resume(self, name: str | None) -> None:
        with self.database.write() as transaction:
            if transaction.run(statements.RESUME, name=name or ""):
                transaction.run(statements.WRITE, **line(EventKind.RESUMED, None, None, name))

    def paused(self) -> frozenset[str | None]:
        with self.database.read() as transaction:
            return paused_names(transaction)

    def tidy(self, limit: int) -> int:
        with self.database.write() as transaction:
            over = transaction.rows(statements.OVER, before=transaction.now - RETRY_WINDOW, limit=limit)
            for (number,) in over:
                transaction.run(statements.DELETE_HISTORY, id=number)
                transaction.run(statements.DELETE, id=number)
            forgotten = transaction.run(statements.FORGET_ENTITIES, before=transaction.now - _FORGET_AFTER)
            transaction.run(statements.FORGET_LOOSE_LINES, before=transaction.now - RETRY_WINDOW)
            return len(over) + forgotten

    def audit(self, repair: bool) -> list[Finding]:
        with self.database.write() as transaction:
            found = []
            for problem, wrong in statements.CONTRADICTIONS.items():
                for row in transaction.rows(wrong):
                    if repair:
                        transaction.run(statements.MEND, id=row[0])
                    found.append(Finding(entry_of(row).uuid, problem, repair))
            (orphans,) = transaction.row(statements.ORPHANED_LINES) or (0,)
            if orphans:
                if repair:
                    transaction.run(statements.DROP_ORPHANED_LINES)
                found.append(Finding(None, f"{orphans} lines of history belong to no job", repair))
            return found

    def put_entity(self, entity: EntityEntry) -> None:
        with self.database.write() as transaction:
            transaction.run(statements.PUT_ENTITY, kind=entity.kind, name=entity.name, body=entity.body, ttl=entity.ttl)

    def remove_entity(self, kind: str, name: str) -> None:
        with self.database.write() as transaction:
            transaction.run(statements.REMOVE_ENTITY, kind=kind, name=name)

    def entities(self) -> list[EntityEntry]:
        with self.database.read() as transaction:
            rows, now = transaction.rows(statements.ENTITIES), transaction.now
        return [
            EntityEntry(kind, name, body, ttl, last_seen, last_seen + ttl - now)
            for kind, name, body, ttl, last_seen in rows
        ]

    def save_book(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        with self.database.write() as transaction:
            row = transaction.row(statements.READ_BOOK, uuid=uuid)
            present = row[1] if row else None
            if present not in (version, after):
                return False
            transaction.run(statements.WRITE_BOOK, uuid=uuid, body=body, version=version)
            return True

    def load_book(self, uuid: str) -> tuple[bytes, str] | None:
        with self.database.read() as transaction:
            row = transaction.row(statements.READ_BOOK, uuid=uuid)
        return None if row is None else (row[0], row[1])

    def destroy_book(self, uuid: str) -> bool:
        with self.database.write() as transaction:
            return transaction.run(statements.DESTROY_BOOK, uuid=uuid) > 0


def was_released(transaction: Transaction, hold: Hold) -> Verdict:
    row = transaction.row(statements.WAS_DONE, uuid=hold.uuid, token=hold.token, kinds='["RELEASED"]')
    return Verdict.LOST if row is None else Verdict.REPEATED


def _restore(transaction: Transaction, uuid: str) -> Restored:
    entry = find(transaction, uuid)
    if entry is None:
        return Restored.MISSING
    if entry.state is not JobState.TRASHED:
        last = transaction.row(statements.LAST_OF_TRASH, id=entry.sequence)
        return Restored.REPEATED if last == (EventKind.RESTORED.value,) else Restored.MISSING
    if entry.key is not None and transaction.row(statements.FIND_KEY, name=entry.name, key=entry.key) is not None:
        return Restored.TAKEN
    transaction.run(statements.RESTORE, id=entry.sequence)
    write_down(transaction, EventKind.RESTORED, entry)
    return Restored.DONE


def _purge(transaction: Transaction, uuid: str) -> Restored:
    entry = find(transaction, uuid)
    if entry is None or entry.state is not JobState.TRASHED:
        return Restored.MISSING
    transaction.run(statements.DELETE_HISTORY, id=entry.sequence)
    transaction.run(statements.DELETE, id=entry.sequence)
    # Of a purged job only the event is left; it belongs to no job, and goes in its time.
    transaction.run(statements.WRITE, **line(EventKind.PURGED, None, entry.uuid, entry.name, token=entry.token or None))
    return Restored.DONE
