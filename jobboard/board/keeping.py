"""Keeps the claims of one owner for those who run jobs without a conductor."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Self

from jobboard.backends.rows import Verdict
from jobboard.backends.timelimit import time_limit
from jobboard.board.handles import JobHandles
from jobboard.board.renewer import LeaseRenewer, Source
from jobboard.client import BackendClient
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job, row_of

logger = logging.getLogger("jobboard.keeper")

#: Seconds that :meth:`Keeper.stop` waits for a request that is under way.
_STOP_TIMEOUT = 10.0


class _Claim:
    """A claim that is kept: its job, and until when it holds by this machine's monotonic clock."""

    def __init__(self, job: Job, until: float | None = None) -> None:
        row = row_of(job)
        self.job = job
        self.progress = None
        #: Seconds from the claim to its end.
        self.expiry = math.inf if row.expires_at is None else row.expires_at - row.last_modified
        #: Of a claim that was made before it is kept nobody knows how late its answer came.
        self.held_until = time.monotonic() + self.expiry if until is None else until
        #: Whether an end of it was sent: then its sender learns what became of the claim.
        self.is_ending = False
        self.is_over = False

    def renewed(self, until: float) -> None:
        if self.expiry != math.inf:
            self.held_until = until


class Keeper:
    """Renews all claims of one owner that are made through one board; a context manager, to be entered once.

    Get one from :meth:`JobBoard.keep`. A claim that never ends by time stays so; it is only watched.
    """

    def __init__(
        self,
        board: Source,
        client: BackendClient,
        handles: JobHandles,
        who: str,
        expiry: float,
        on_lost: Callable[[Job], object] | None,
    ) -> None:
        if on_lost is not None and not callable(on_lost):
            raise TypeError(f"on_lost must be callable, not {type(on_lost).__name__}")
        self._client, self._handles, self._who, self._on_lost = client, handles, who, on_lost
        self._title = f"the keeper of {who!r}"
        source = _Limited(board, self._time_left)
        self._renewer = LeaseRenewer[_Claim](
            source, who, expiry, self._lose, lambda claim: None, self._lose_overdue, logger, self._title
        )
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Begin, also with the claims that this board has made for this owner before.

        :raises BoardUnavailable: the board is closed; or there are such claims, and the store can't be reached.
        """
        self._client.check_open()
        if self._stopped.is_set():
            raise ValueError("this keeper was stopped; call keep() again")
        earlier = self._handles.held(self._who)
        try:
            self._client.keepers.add(self._who, self)
            if earlier:
                self._keep([_Claim(job) for job in earlier])
                self._renewer.renew_within(0.0)
            self._renewer.start()
        except BaseException:
            # There may be no more threads; what this board claims later must not be left to a keeper without one.
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Renew no more, and call ``on_lost`` no more; the claims stay as they are. Idempotent."""
        try:
            self._client.keepers.remove(self._who, self)
            if self._stopped.is_set():
                return
            self._stopped.set()
            self._renewer.stop(_STOP_TIMEOUT)
        except BaseException:
            # What a signal's handler raises must leave no thread that renews for ever.
            self._stopped.set()
            self._renewer.stop(0.0)
            raise
        with time_limit(_STOP_TIMEOUT):
            self._renewer.unsubscribe()

    @property
    def held(self) -> list[Job]:
        """The jobs whose claims are kept now, as far as this machine's monotonic clock tells."""
        now = time.monotonic()
        return [claim.job for claim in self._renewer.held() if claim.held_until > now]

    @property
    def unrenewed(self) -> list[Job]:
        """The jobs whose claims the last renewal could not reach, and which are not lost yet."""
        now = time.monotonic()
        return [claim.job for claim in self._renewer.unrenewed() if claim.held_until > now]

    # -- what becomes of claims; from any thread -------------------------------------------------------------------

    def claimed(self, jobs: Sequence[Job], until: float) -> None:
        self._keep([_Claim(job, until) for job in jobs])

    def _keep(self, claims: Sequence[_Claim]) -> None:
        self._renewer.add(claims)
        for claim in claims:
            # A claim may have been made for less than the keeper's expiry.
            self._renewer.renew_within(min(claim.expiry / 3, claim.held_until - time.monotonic()))

    def ending(self, uuid: str, token: int) -> None:
        claim = self._find(uuid, token)
        if claim is not None:
            claim.is_ending = True

    def ended(self, uuid: str, token: int) -> None:
        claim = self._find(uuid, token)
        if claim is not None:
            self._renewer.remove([claim])

    def _find(self, uuid: str, token: int) -> _Claim | None:
        claim = self._renewer.find(uuid)
        return claim if claim is not None and claim.job.token == token else None

    # -- from the renewer's thread ---------------------------------------------------------------------------------

    def _time_left(self) -> float:
        """Return the seconds until the first claim is over: a request that takes longer would tell it too late."""
        return min((claim.held_until for claim in self._renewer.held()), default=math.inf) - time.monotonic()

    def _lose_overdue(self) -> None:
        now = time.monotonic()
        for claim in self._renewer.held():
            if claim.held_until <= now:
                self._lose(claim)

    def _lose(self, claim: _Claim) -> None:
        """Call ``on_lost``, once."""
        with self._lock:
            is_known, claim.is_over = claim.is_over or claim.is_ending, True
        self._renewer.remove([claim])
        if is_known or self._stopped.is_set():
            return
        logger.warning("%s: the claim of job %s (token %s) is lost", self._title, claim.job.uuid, claim.job.token)
        if self._on_lost is not None:
            try:
                self._on_lost(claim.job)
            except Exception:
                logger.exception("%s: on_lost failed on job %s", self._title, claim.job.uuid)


class _Limited:
    """The board, but for requests that would take longer than there is time."""

    def __init__(self, board: Source, time_left: Callable[[], float]) -> None:
        self._board, self._time_left = board, time_left

    def _extend_each(
        self, jobs: Sequence[Any], who: str, expiry: float | None, progress: Sequence[Any] | None
    ) -> list[Verdict | BoardUnavailable]:
        """Claims that never end by time stay so."""
        verdicts: dict[str, Verdict | BoardUnavailable] = {}
        with time_limit(self._time_left()):
            for is_endless, seconds in ((False, expiry), (True, math.inf)):
                part = [job for job in jobs if (row_of(job).expires_at is None) is is_endless]
                answers = self._board._extend_each(part, who, seconds, None) if part else []
                verdicts |= {job.uuid: verdict for job, verdict in zip(part, answers, strict=True)}
        return [verdicts[job.uuid] for job in jobs]

    def subscribe(
        self, callback: Callable[[JobEvent], None], kinds: Collection[EventKind] | None = None
    ) -> Callable[[], None]:
        with time_limit(self._time_left()):
            return self._board.subscribe(callback, kinds)
