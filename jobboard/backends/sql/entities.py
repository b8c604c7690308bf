"""Participants and books in SQL."""

from __future__ import annotations

from jobboard.backends.roles import BookStore, EntityStore
from jobboard.backends.rows import EntityRow
from jobboard.backends.sql import admin_statements
from jobboard.backends.sql.database import Transactions


class Entities(EntityStore):
    """Put, remove and list participants."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def put(self, entity: EntityRow) -> None:
        with self._transactions.write() as transaction:
            transaction.run(
                admin_statements.PUT_ENTITY, kind=entity.kind, name=entity.name, body=entity.body, ttl=entity.ttl
            )
            # A heartbeat; nobody waits for it.
            transaction.changed = False

    def remove(self, kind: str, name: str) -> None:
        with self._transactions.write() as transaction:
            transaction.run(admin_statements.REMOVE_ENTITY, kind=kind, name=name)

    def all(self) -> list[EntityRow]:
        with self._transactions.read() as transaction:
            rows, now = transaction.rows(admin_statements.ENTITIES), transaction.now
        return [
            EntityRow(kind, name, body, ttl, last_seen, last_seen + ttl - now)
            for kind, name, body, ttl, last_seen in rows
        ]


class Books(BookStore):
    """Save, load and destroy books."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def save(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        with self._transactions.write() as transaction:
            row = transaction.row(admin_statements.BOOK_VERSION, uuid=uuid)
            present = row[0] if row else None
            if present not in (version, after):
                return False
            statement = admin_statements.ADD_BOOK if row is None else admin_statements.CHANGE_BOOK
            transaction.run(statement, uuid=uuid, body=body, version=version)
            return True

    def load(self, uuid: str) -> tuple[bytes, str] | None:
        with self._transactions.read() as transaction:
            row = transaction.row(admin_statements.READ_BOOK, uuid=uuid)
        return None if row is None else (row[0], row[1])

    def destroy(self, uuid: str) -> bool:
        with self._transactions.write() as transaction:
            return transaction.run(admin_statements.DESTROY_BOOK, uuid=uuid) > 0
