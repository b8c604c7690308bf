"""Steps and signals in SQL."""

from __future__ import annotations

from jobboard.backends import lifecycle, waiting
from jobboard.backends.edge_rows import SignalOutcome, SignalRow, StepRow
from jobboard.backends.rows import ClaimAnswer, Fence
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.rows import MAX_INTEGER
from jobboard.backends.sql.step_statements import ADD_SIGNAL, FIND_SIGNAL, LOAD_STEPS, PUT_STEP, SIGNALS
from jobboard.backends.sql.stored_jobs import LockedJobs
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import save
from jobboard.backends.step_store import StepStore


class Steps(StepStore):
    """Save and load steps; send and read signals."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def save(self, fence: Fence, step: StepRow) -> ClaimAnswer:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            job = LockedJobs.lock(transaction, [fence.uuid]).under(fence)
            if lifecycle.holds(job, fence):
                transaction.do(PUT_STEP, uuid=fence.uuid, number=step.number, name=step.name, result=step.result)
            return lifecycle.save_step(job, fence)

    def load(self, uuid: str, first: int, size: int) -> list[StepRow]:
        with self._transactions.read() as transaction:
            rows = transaction.rows(LOAD_STEPS, uuid=uuid, first=min(first, MAX_INTEGER), size=size)
        return [StepRow(number, name, result, at) for number, name, result, at in rows]

    def signal(self, uuid: str, name: str, value: bytes, by: str | None = None) -> SignalOutcome:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            job = LockedJobs.lock(transaction, [uuid]).get(uuid)
            change = waiting.signal(job, name, by, transaction.now)
            if change.answer is not SignalOutcome.DONE:
                return change.answer
            if is_sent(transaction, uuid, name):
                return SignalOutcome.REPEATED
            transaction.run(ADD_SIGNAL, uuid=uuid, name=name, value=value)
            (outcome,) = save(transaction, [(job, change)])
            return outcome

    def signals(self, uuid: str) -> list[SignalRow]:
        with self._transactions.read() as transaction:
            return [SignalRow(name, value, at) for name, value, at in transaction.rows(SIGNALS, uuid=uuid)]


def is_sent(transaction: Transaction, uuid: str, name: str) -> bool:
    """Whether a signal was sent to a job, which is locked."""
    return bool(transaction.rows(FIND_SIGNAL, uuid=uuid, name=name))
