"""Post and cancel in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobboard.backends import lifecycle
from jobboard.backends.rows import CancelOutcome, NewJob, Posted
from jobboard.backends.sql.batch import BatchRefused, post_all, post_beside_others
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.resolving import ending
from jobboard.backends.sql.stored_jobs import LockedJobs
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import save
from jobboard.errors import TransactionUndone

Post = Callable[[Transaction, Sequence[NewJob]], list[Posted]]


class Posting:
    """Post and cancel."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        try:
            return self._post_by(post_all, rows)
        except TransactionUndone as undone:
            if not (self._transactions.are_users and undone.is_key_taken):
                raise
            # Nobody else can run the user's transaction again, but of it only this part is undone.
            return self._post_by(post_beside_others, rows)

    def _post_by(self, post: Post, rows: Sequence[NewJob]) -> list[Posted]:
        try:
            with ending(self._transactions) as transaction:
                expire_and_promote(transaction)
                return post(transaction, rows)
        except BatchRefused as refused:
            return refused.answers

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        with ending(self._transactions) as transaction:
            expire_and_promote(transaction)
            jobs = LockedJobs.lock(transaction, uuids)
            found = (jobs.get(uuid) for uuid in uuids)
            return save(transaction, ((job, lifecycle.cancel(job, transaction.now, by, reason)) for job in found))
