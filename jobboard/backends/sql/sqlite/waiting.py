"""Waiting on SQLite, with a standing claim request."""

from __future__ import annotations

import contextlib
import math
import time
import uuid
from collections.abc import Callable
from typing import Any

from jobboard.backends.rows import JobRow
from jobboard.backends.sql.change_notifier import ChangeNotifier, SqlWaiter
from jobboard.backends.sql.claiming import claims_under
from jobboard.backends.sql.rows import job_of
from jobboard.backends.sql.sqlite.claim_requests import RequestFifos, StandingRequest
from jobboard.backends.sql.sqlite.database import SqliteDatabase

#: No request stands longer than this, in seconds, before another one takes its place.
MAX_STANDING = 5.0
#: Only claims of at least this many seconds are made ahead: of their beginning the owner knows that it was not before
#: the request was put, and there must be time for the first renewal.
MIN_EXPIRY = 3 * MAX_STANDING


class SqliteWaiter(SqlWaiter):
    """Sleeps on its own FIFO while it has a claim request, and hears there what is claimed under it."""

    def __init__(
        self,
        change_notifier: ChangeNotifier,
        ready_in: Callable[[], float | None],
        names: frozenset[str] | None,
        database: SqliteDatabase,
    ) -> None:
        super().__init__(change_notifier, ready_in)
        self._names = None if names is None else sorted(names)
        self._database = database
        self._who, self._expiry = "", 0.0
        self._fifos: RequestFifos | None = None
        #: The claim id of the request, as long as it stands or somebody may have claimed under it.
        self._claim_id: str | None = None
        self._standing_since = math.inf
        #: What is claimed under it if the transaction that claims commits; and what is, as far as this has heard.
        self._announced: list[JobRow] = []
        self._claimed: list[JobRow] = []

    def claim_ahead(self, who: str, expiry: float) -> None:
        if expiry >= MIN_EXPIRY and self._fifos is None:
            self._who, self._expiry = who, expiry
            # Without FIFOs it waits as everybody does, and claims by itself.
            with contextlib.suppress(OSError):
                self._fifos = RequestFifos(self._database.path)
                self._change_notifier.wakers.append(self._fifos.wake)

    def ready_in(self) -> float | None:
        if self._fifos is not None:
            self._hear(self._fifos)
        due = super().ready_in()
        if self._fifos is not None and self._claim_id is None and (due is None or due > 0):
            self._put_request(self._fifos)
        return due

    def _put_request(self, fifos: RequestFifos) -> None:
        claim_id, since, until = uuid.uuid4().hex, time.monotonic(), time.time() + 2 * MAX_STANDING
        request = StandingRequest(self._database.board, self._names, self._who, claim_id, self._expiry, until)
        self._claim_id, self._standing_since = (claim_id, since) if fifos.put(request) else (None, math.inf)

    def _hear(self, fifos: RequestFifos) -> bool:
        """Return whether it is time to wake up. What came for an earlier request came too late, and was found."""
        is_any = False
        for answer in fifos.answers():
            if isinstance(answer, list):
                if len(answer) == 2 and answer[0] == self._claim_id:
                    # It is read here, while its transaction waits for the disk.
                    self._announced = _jobs_of(answer[1])
                continue
            is_any = True
            if answer == self._claim_id:
                self._claimed = self._announced
        return is_any

    def wait(self, timeout: float | None) -> None:
        fifos = self._fifos
        if fifos is None:
            super().wait(timeout)
            return
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while (now := time.monotonic()) < deadline and not self._has_reason():
            if self._standing_since + MAX_STANDING <= now:
                if not fifos.withdraw():
                    break
                self._put_request(fifos)
            fifos.wait(min(deadline, now + MAX_STANDING) - now)
            if self._hear(fifos):
                break
        self._change_notifier.check_open()
        self._interrupted = False

    def _has_reason(self) -> bool:
        """Whether there is a reason to wake up."""
        return bool(self._claimed) or self._interrupted or self._change_notifier.changes != self._seen

    def claimed(self) -> tuple[list[JobRow], float]:
        if self._fifos is None or self._claim_id is None:
            return [], math.inf
        rows, self._announced, self._claimed = self._claimed, [], []
        if not rows and not self._fifos.withdraw():
            rows = self._find(self._fifos, self._claim_id)
        since, self._claim_id, self._standing_since = self._standing_since, None, math.inf
        return rows, since if rows else math.inf

    def _find(self, fifos: RequestFifos, claim_id: str) -> list[JobRow]:
        """Return what was claimed under a request that somebody has taken."""
        with self._database.write() as transaction:
            # That transaction is over now: it has put the request back unused, or claimed under it, or it was undone.
            return [] if fifos.withdraw() else claims_under(transaction, claim_id)

    def close(self) -> None:
        super().close()
        if self._fifos is not None:
            self._change_notifier.wakers.remove(self._fifos.wake)
            self._fifos.close()
            self._fifos = None


def _jobs_of(row: Any) -> list[JobRow]:
    """Return the job of a row, unless somebody else has written it."""
    try:
        return [job_of(tuple(row))]
    except (TypeError, ValueError):
        return []
