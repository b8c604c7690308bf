"""The claimed jobs of a batch of holds, read and locked before anything is changed under them."""

from __future__ import annotations

from jobboard.backends.rows import Fence
from jobboard.backends.sql import statements
from jobboard.backends.sql.rows import DUE_AT, OWNER, STATE, TOKEN, UUID, Row
from jobboard.backends.sql.schema import CLAIMED
from jobboard.backends.sql.transaction import Transaction


class Held:
    """Some rows; a hold fits if and only if all three are the row's present ones."""

    def __init__(self, transaction: Transaction, rows: list[Row]) -> None:
        self.uuids = {row[UUID] for row in rows}
        # A claim that is over may be here still, where somebody who had locked it left it alone.
        self._rows = {
            row[UUID]: row
            for row in rows
            if row[STATE] == CLAIMED and (row[DUE_AT] is None or row[DUE_AT] > transaction.now)
        }

    def row(self, fence: Fence) -> Row | None:
        row = self._rows.get(fence.uuid)
        return row if row is not None and row[TOKEN] == fence.token and row[OWNER] == fence.who else None

    def take(self, fence: Fence) -> Row | None:
        """Return the row for one end; a second end in the same batch finds it no more."""
        row = self.row(fence)
        if row is not None:
            self.forget(fence.uuid)
        return row

    def forget(self, uuid: str) -> None:
        self._rows.pop(uuid, None)


def lock_held(transaction: Transaction, holds: list[Fence]) -> Held:
    """Read and lock the jobs of these holds."""
    if len(holds) == 1:
        return Held(transaction, transaction.rows(statements.FENCE, uuid=holds[0].uuid))
    uuids = transaction.list_of(fence.uuid for fence in holds)
    return Held(transaction, transaction.rows(statements.FENCES, uuids=uuids) if holds else [])


def held_and_free(transaction: Transaction, holds: list[Fence]) -> Held:
    """Read and lock those of them that nobody else has locked."""
    uuids = transaction.list_of(fence.uuid for fence in holds)
    return Held(transaction, transaction.rows(statements.FREE_FENCES, uuids=uuids))


def locked_by_others(transaction: Transaction, free: Held, holds: list[Fence]) -> Held:
    """Read those that were passed over; they hold until whoever has them locked commits."""
    others = [fence.uuid for fence in holds if fence.uuid not in free.uuids]
    rows = transaction.rows(statements.FENCES_TO_SEE, uuids=transaction.list_of(others)) if others else []
    return Held(transaction, rows)
