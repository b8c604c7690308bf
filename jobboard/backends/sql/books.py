"""Logbooks in SQL: a row for each, and one for each of its entries."""

from __future__ import annotations

from jobboard.backends import lifecycle
from jobboard.backends.book_rows import BookPage, BookPart, BookRow, BookSave, SaveOutcome
from jobboard.backends.roles import BookStore
from jobboard.backends.rows import Fence
from jobboard.backends.sql import admin_statements
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.stored_jobs import LockedJobs
from jobboard.backends.sql.transaction import Transaction


class Books(BookStore):
    """A save under a claim locks the job first, as its owner's other calls do."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def save(self, step: BookSave) -> SaveOutcome:
        with self._transactions.write() as transaction:
            holds = step.fence is None or _holds(transaction, step.fence)
            row = transaction.row(admin_statements.BOOK_VERSION, uuid=step.uuid)
            present = row[0] if row else None
            if present == step.version:
                return SaveOutcome.SAVED
            if not holds:
                return SaveOutcome.LOST
            if present != step.after:
                return SaveOutcome.STALE
            statement = admin_statements.ADD_BOOK if row is None else admin_statements.CHANGE_BOOK
            transaction.run(statement, uuid=step.uuid, body=step.body, version=step.version)
            put = [
                {"uuid": step.uuid, "name": name, "body": data}
                for name, data in step.entries.items()
                if data is not None
            ]
            removed = [{"uuid": step.uuid, "name": name} for name, data in step.entries.items() if data is None]
            transaction.run_many(admin_statements.PUT_BOOK_ENTRY, put)
            transaction.run_many(admin_statements.REMOVE_BOOK_ENTRY, removed)
            return SaveOutcome.SAVED

    def load(self, uuid: str, cursor: str | None, size: int) -> BookPart | None:
        with self._transactions.read() as transaction:
            rows = transaction.rows(admin_statements.READ_BOOK, uuid=uuid, after=cursor or "", limit=size + 1)
        if not rows:
            return None
        book = BookRow(uuid, rows[0][0], rows[0][1])
        entries = [(name, data) for _, _, name, data in rows[:size] if name is not None]
        return BookPart(book, entries, entries[-1][0] if len(rows) > size else None)

    def page(self, cursor: object | None, size: int) -> BookPage:
        with self._transactions.read() as transaction:
            found = transaction.rows(admin_statements.BOOK_PAGE, after=str(cursor or ""), limit=size + 1)
        rows = [BookRow(*row) for row in found[:size]]
        return BookPage(rows, rows[-1].uuid if len(found) > size else None)

    def destroy(self, uuid: str) -> bool:
        with self._transactions.write() as transaction:
            is_there = transaction.run(admin_statements.DESTROY_BOOK, uuid=uuid) > 0
            if is_there:
                transaction.run(admin_statements.REMOVE_BOOK_ENTRIES, uuid=uuid)
            return is_there


def _holds(transaction: Transaction, fence: Fence) -> bool:
    expire_and_promote(transaction)
    return lifecycle.holds(LockedJobs.lock(transaction, [fence.uuid]).under(fence), fence)
