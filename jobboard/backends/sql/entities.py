"""Participants in SQL."""

from __future__ import annotations

from jobboard.backends.roles import EntityStore
from jobboard.backends.rows import EntityRow
from jobboard.backends.sql import admin_statements
from jobboard.backends.sql.database import Transactions


class Entities(EntityStore):
    """Put, remove and list participants."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        with self._transactions.write() as transaction:
            transaction.run(
                admin_statements.PUT_ENTITY, kind=entity.kind, name=entity.name, body=entity.body, ttl=entity.ttl
            )
            # A heartbeat; nobody waits for it.
            transaction.changed = False
            return orders is None or transaction.row(admin_statements.HAS_BOOK, uuid=orders) is not None

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
