"""Looks at lanes that are steps of their own: nobody changes a job, but a limit was changed, or a moment has come."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.errors import after_a_change
from jobboard.backends.lanes import MAX_EXCHANGES
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.lane_limits import LaneLimits
from jobboard.backends.zookeeper.lanes import Lanes, LaneStep
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.transactions import SentTransaction, Transactions


class LaneLooks:
    """Each lane is written in a transaction of its own; all are sent before the first answer is awaited."""

    def __init__(self, listing: Listing, transactions: Transactions, limits: LaneLimits, lanes: Lanes) -> None:
        self._listing, self._transactions, self._limits, self._lanes = listing, transactions, limits, lanes
        self._last_exchange = ""

    def look(self, lanes: Sequence[str]) -> list[str]:
        """Bring lanes to what their limits allow; return those that need another look now.

        Those are among them that others have changed meanwhile.
        """
        names = list(dict.fromkeys(lanes))
        if not names:
            return []
        try:
            looked = self._lanes.look(self._limits.of(names), dict.fromkeys(names, ()))
        except Conflict as conflict:
            self._lanes.note_conflict(conflict)
            return names
        written = self._write([lane for lane in looked if lane.is_changed])
        return [lane.text for lane in looked if lane.must_look_again or (lane.is_changed and lane.text not in written)]

    def exchange(self, names: frozenset[str] | None, most: int) -> bool:
        """Let up to ``most`` BLOCKED jobs of these names be claimable instead of jobs that can't be claimed under them.

        Looks at up to 20 lanes; the next call goes on behind them. Returns whether there are such jobs now.
        """
        with self._listing.lock:
            lanes = (
                [] if None in self._listing.closed else self._listing.lanes.mixed(self._last_exchange, MAX_EXCHANGES)
            )
        if not lanes:
            return False
        self._last_exchange = lanes[-1]
        try:
            steps = self._lanes.exchange(self._limits.of(lanes), lanes, names, most)
        except Conflict as conflict:
            self._lanes.note_conflict(conflict)
            return False
        return bool(self._write(steps))

    def _write(self, lanes: Sequence[LaneStep]) -> set[str]:
        """Write looks, and return the lanes of those that are written: no other client was faster."""
        self._transactions.create_parents_of_guards(lanes)
        sent: list[tuple[LaneStep, SentTransaction]] = []
        written: set[str] = set()
        with after_a_change(lambda: sent):
            for lane in lanes:
                sent.append((lane, self._send(lane)))
        with after_a_change(lambda: len(sent) > 1):
            for lane, transaction in sent:
                try:
                    self._transactions.finish(transaction)
                    written.add(lane.text)
                except Conflict as conflict:
                    self._lanes.note_conflict(conflict)
        return written

    def _send(self, lane: LaneStep) -> SentTransaction:
        transaction = self._transactions.begin()
        if lane.moved:
            self._transactions.check_not_deleted(transaction, lane.moved)
        self._transactions.write_guards(transaction, [lane])
        for job in lane.moved:
            self._transactions.write_job(transaction, job)
        return self._transactions.send(transaction)
