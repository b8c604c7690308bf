"""The consumers' side: claim, extend, checkpoint, and end claims."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from itertools import count
from operator import attrgetter
from typing import Any, overload

from jobboard.backends.base import Backend
from jobboard.backends.rows import (
    Abandonment,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    Trashing,
    Verdict,
    verdict_of,
)
from jobboard.board.claim_errors import error_of_end, refusal_of
from jobboard.board.fences import Fences
from jobboard.board.handles import JobHandles
from jobboard.board.postings import Postings
from jobboard.client import BackendClient
from jobboard.client.gathering import ItemRequest, RequestGenerator, sends_one_request
from jobboard.codec import NewerFormat
from jobboard.errors import BoardUnavailable, JobBoardError, NotFound, UnclaimableJob
from jobboard.job import Job, JobHandle, JobOrUuid, Posting
from jobboard.states import JobState
from jobboard.types import Seconds
from jobboard.validation import (
    check_count,
    check_delay,
    check_expiry,
    check_moment,
    check_names,
    check_operator,
    check_reason,
    check_text,
)

#: After how many batches of jobs that this client can't read, a call gives up.
_MAX_UNREADABLE = 100

_order_of = attrgetter("_order")


class Consuming:
    """The consumers' side of a board.

    Each end of a claim is fenced: check and change are one atomic step in the store. If the claim does not hold,
    nothing is changed and :class:`~jobboard.ClaimLost` is raised. In all these calls

    - ``job`` is a handle or a uuid, and ``who`` the owner's name under which the job was claimed;
    - ``token`` proves the claim where neither the handle nor this board object knows its token;
    - :class:`~jobboard.BoardUnavailable` is raised if the store can't be reached within the board's ``patience``.
    """

    _client: BackendClient
    _backend: Backend
    _handles: JobHandles
    _fences: Fences
    _postings: Postings

    def claim(self, job: JobHandle | str, who: str, expiry: Seconds | None = None) -> int:
        """Claim one job. Atomic; counts as an attempt.

        :param who: the owner's name; another claim of the same name is another owner all the same.
        :param expiry: seconds after which the claim ends unless extended; ``math.inf`` for never; None for the
            board's default.
        :returns: the token, larger than that of any earlier claim of this job. A handle given as ``job`` has it, too.
        :raises UnclaimableJob: it is claimed (``owner`` says by whom), delayed, paused, complete or trashed.
        :raises NotFound: there is no such job.
        """
        uuid = self._handles.uuid_of(job)
        claim = ClaimRequest(check_text("who", who), os.urandom(16).hex(), self._expiry_of(expiry))
        until = time.monotonic() + claim.expiry
        row = self._client.call(self._backend.jobs.claim, uuid, claim)
        if row is None:
            raise NotFound(f"no job {uuid} on board {self._client.name!r}")
        if row.claim_id != claim.claim_id:
            raise refusal_of(row)
        _, faults = self._handles.claimed([row], until)
        for fault in faults:
            if isinstance(fault, NewerFormat):
                raise UnclaimableJob(f"job {uuid} is left to newer clients, upgrade this one: {fault}")
            raise UnclaimableJob(f"job {uuid} can't be decoded and was moved to the trash", state=JobState.TRASHED)
        if isinstance(job, JobHandle):
            job._take_claim(row)
        return row.token

    def claim_next(
        self, who: str, names: Collection[str] | None = None, limit: int = 1, expiry: Seconds | None = None
    ) -> list[Job]:
        """Claim the best jobs that can be claimed, in one request. Each claim is atomic and counts as an attempt.

        The cost does not grow with the backlog. A job that can't be decoded goes to the trash. A job that a newer
        jobboard posted in a newer format is returned uncounted, with a delay of 1 to 60 seconds, so that this client
        finds the others; after a hundred batches of nothing else it gives up until the next call.

        :param who: the owner's name.
        :param names: only jobs of these names; None for any.
        :param limit: how many jobs at most.
        :param expiry: as for :meth:`claim`.
        :returns: handles with their tokens, best first; [] if there is no job to claim.
        """
        return self._claims_for(who, names, expiry)(check_count("limit", limit))

    def _claims_for(
        self, who: str, names: Collection[str] | None, expiry: Seconds | None
    ) -> Callable[[int], list[Job]]:
        """Return :meth:`claim_next` for one owner, who claims many times: its arguments are checked once."""
        wanted, owner, seconds = check_names(names), check_text("who", who), self._expiry_of(expiry)
        # To ask the system for random bytes lets other threads run, while the claim is not sent yet.
        beginning, numbers = os.urandom(12).hex(), count()

        def claim_next(most: int) -> list[Job]:
            jobs: list[Job] = []
            largest = self._backend.capabilities.largest_batch
            for _ in range(_MAX_UNREADABLE + most // largest):
                size = min(most - len(jobs), largest)
                until = time.monotonic() + seconds
                claim = ClaimRequest(owner, f"{beginning}{next(numbers):08x}", seconds)
                try:
                    rows = self._client.claim_until_certain(claim, wanted, size)
                except BoardUnavailable:
                    if jobs:
                        # Their caller must learn of them. What a lost reply may have claimed expires.
                        break
                    raise
                jobs += self._handles.claimed(rows, until)[0]
                if len(rows) < size or len(jobs) >= most:
                    break
            if len(jobs) > 1:
                # Where the store was slow, one of the first claims may have expired, and a later one be of its job.
                jobs = list({job.uuid: job for job in jobs}.values())
            if len(jobs) > largest or (jobs and jobs[-1].lane is not None):
                # A later batch may hold better jobs, posted or abandoned since the first one; so may what comes last,
                # which has got the slots of other jobs of its lanes.
                jobs.sort(key=_order_of)
            return jobs

        return claim_next

    @sends_one_request
    def extend(
        self, job: JobHandle | str, who: str, expiry: Seconds | None = None, *, token: int | None = None
    ) -> RequestGenerator[None]:
        """Let a claim end ``expiry`` seconds from now, also when that is sooner. Atomic and idempotent.

        :param job: a handle or a uuid; ``who``: its owner's name; ``token``: proves the claim to a board object that
            did not get it.
        :param expiry: seconds; ``math.inf`` for never; None for the board's default.
        :raises ClaimLost: the claim does not hold.
        """
        extension = Extension(self._fences.of(job, who, token), self._expiry_of(expiry))
        verdict, _ = yield ItemRequest(self._backend.jobs.extend, extension, extension.fence.uuid)
        self._fences.raise_if_lost(extension.fence, verdict)

    def extend_many(
        self,
        jobs: Sequence[JobHandle],
        who: str,
        expiry: Seconds | None = None,
        *,
        progress: Sequence[Any] | None = None,
    ) -> list[Verdict]:
        """Extend a batch of claims in one request; each is atomic and idempotent.

        :param jobs: handles that claimed; ``who``: their owner's name.
        :param expiry: as for :meth:`extend`.
        :param progress: for each job what its record shows operators until the next claim; None leaves it as it is.
        :returns: for each job ``Verdict.DONE``, ``Verdict.CANCEL_ASKED`` (extended, and its cancel was requested) or
            ``Verdict.LOST``.
        :raises InvalidPosting: a progress can't be stored; no claim was extended.
        :raises BoardUnavailable: the store is away; or it refuses some of them, and all the others are extended.
        """
        answers = self._extend_each(jobs, who, expiry, progress)
        for answer in answers:
            if isinstance(answer, BoardUnavailable):
                raise answer
        return [answer for answer in answers if isinstance(answer, Verdict)]

    def _extend_each(
        self, jobs: Sequence[JobHandle], who: str, expiry: Seconds | None, progress: Sequence[Any] | None
    ) -> list[Verdict | BoardUnavailable]:
        """Extend as :meth:`extend_many` does; return why the store refuses those that it refuses.

        :raises BoardUnavailable: the store is away.
        """
        seconds = self._expiry_of(expiry)
        values: Sequence[Any] = [None] * len(jobs) if progress is None else progress
        check_text("who", who)
        extensions = [
            Extension(
                self._fences.held(job, who, None), seconds, None if item is None else self._client.encode_progress(item)
            )
            for job, item in zip(jobs, values, strict=True)
        ]
        return [
            reply if isinstance(reply, BoardUnavailable) else verdict_of(reply[0])
            for reply in self._client.replies(self._backend.jobs.extend, extensions)
        ]

    @sends_one_request
    def consume(
        self,
        job: JobHandle | str,
        who: str,
        result: Any = None,
        *,
        post: Iterable[Posting] = (),
        retention: Seconds | None = None,
        token: int | None = None,
        connection: Any = None,
    ) -> RequestGenerator[None]:
        """Complete a job for good. Atomic; of all who try, one succeeds.

        :param job: a handle or a uuid; ``who``: its owner's name; ``token``: proves the claim to a board object that
            did not get it.
        :param result: plain data.
        :param retention: seconds that the job's record and its result stay readable; None for the board's option.
        :param post: what is posted in the same atomic step, as by :meth:`post_many`.
        :param connection: as for :meth:`post`: the job is consumed if and only if that transaction commits. Until then
            nobody else can end or extend the claim, nor can it expire.
        :raises ClaimLost: the claim does not hold.
        :raises InvalidPosting: the result can't be stored; the claim holds on.
        :raises AlreadyPosted: a key of what is to be posted is taken; the claim holds on.
        :raises NotFound: the board does not know a parent of what is to be posted; the claim holds on.
        """
        fence = self._fences.of(job, who, token)
        data = None if result is None else self._client.encode("result", result)
        kept = self._kept_for(retention)
        backend = self._client.within(connection)
        following = self._postings.following(post, backend, fence.uuid)
        end = following.of(Consumption(fence, data, kept))
        self._fences.ending(who, [fence])
        verdict, repeated = yield ItemRequest(following.primitive, end, fence.uuid, 0 if data is None else len(data))
        following.check(verdict)
        self._fences.ended(fence, verdict, repeated, JobState.COMPLETE)
        if connection is None:
            # On SQLite it would wait for the user's transaction, which waits for this call.
            self._client.tidy_when_due()

    def consume_many(
        self,
        jobs: Iterable[JobHandle | str],
        who: str,
        *,
        results: Sequence[Any] | None = None,
        retentions: Sequence[Seconds | None] | None = None,
    ) -> list[JobBoardError | None]:
        """Complete a batch in one request; each job atomically.

        If that request does not get through although the store answers, each job has a request of its own, so that one
        that is locked or refused holds up no other.

        :param jobs: handles or uuids, whose claims this board object or the handles got; ``who``: their owner's name.
        :param results: one for each job, as for :meth:`consume`; None for none. ``retentions`` likewise, in seconds.
        :returns: for each job its error, or None if it is complete.
        :raises BoardUnavailable: the store is away.
        """
        batch = list(jobs)
        values: Sequence[Any] = [None] * len(batch) if results is None else results
        check_text("who", who)
        kept = [self._kept_for(each) for each in ([None] * len(batch) if retentions is None else retentions)]
        answers: list[JobBoardError | None] = [None] * len(batch)
        ends: list[tuple[int, Consumption]] = []
        for index, (job, result, retention) in enumerate(zip(batch, values, kept, strict=True)):
            try:
                fence = self._fences.held(job, who, None)
                data = None if result is None else self._client.encode("result", result)
                ends.append((index, Consumption(fence, data, retention)))
            except JobBoardError as error:
                answers[index] = error
        self._fences.ending(who, [end.fence for _, end in ends])
        replies = self._client.replies(self._backend.jobs.consume, [end for _, end in ends])
        answered: list[Fence] = []
        for (index, end), reply in zip(ends, replies, strict=True):
            if isinstance(reply, BoardUnavailable):
                answers[index] = reply
                continue
            answered.append(end.fence)
            answers[index] = error_of_end(end.fence, *reply, JobState.COMPLETE)
        self._fences.forget(who, answered)
        self._client.tidy_when_due()
        return answers

    @sends_one_request
    def abandon(
        self,
        job: JobHandle | str,
        who: str,
        *,
        delay: Seconds = 0.0,
        run_at: datetime | None = None,
        reason: str | None = None,
        error: str | None = None,
        counted: bool = True,
        token: int | None = None,
    ) -> RequestGenerator[None]:
        """Return a job to the board, now or for later. Atomic.

        A job that has used up its ``max_attempts`` goes to the trash instead. One whose cancel was requested is
        cancelled.

        :param job: a handle or a uuid; ``who``: its owner's name; ``token``: proves the claim to a board object that
            did not get it.
        :param delay: seconds before it is claimable again; or ``run_at``: the aware datetime from which it is.
        :param reason: a short text for the history.
        :param error: the long form of the reason, such as a traceback; kept as the job's ``last_error``. None is the
            ``reason``, if the attempt is counted; without both, the last error stays what it was.
        :param counted: False does not count this attempt, for a job that did not fail.
        :raises ClaimLost: the claim does not hold.
        """
        if run_at is not None and delay:
            raise ValueError("give run_at or delay, not both")
        seconds, moment = check_delay(delay), None if run_at is None else check_moment("run_at", run_at)
        texts = check_reason(reason), check_reason(error, "error")
        fence = self._fences.of(job, who, token)
        end = Abandonment(fence, seconds, moment, *texts, counted=bool(counted))
        self._fences.ending(who, [fence])
        verdict, repeated = yield ItemRequest(self._backend.jobs.abandon, end, fence.uuid, len(texts[1] or ""))
        self._fences.ended(fence, verdict, repeated)

    @overload
    def trash(
        self,
        /,
        job: JobOrUuid,
        who: str,
        *,
        reason: str | None = None,
        error: str | None = None,
        token: int | None = None,
        force: bool = False,
    ) -> None: ...
    @overload
    def trash(
        self, /, job: JobOrUuid, *, by: str | None = None, reason: str | None = None, error: str | None = None
    ) -> None: ...
    @sends_one_request
    def trash(
        self,
        job: JobOrUuid,
        who: str | None = None,
        *,
        by: str | None = None,
        reason: str | None = None,
        error: str | None = None,
        token: int | None = None,
        force: bool = False,
    ) -> RequestGenerator[None]:
        """Move a broken job to the trash, where it stays until it is restored or purged. Atomic.

        With ``who`` as the end of its claim. Without it for operators, also while the job is claimed; that claim is
        lost. That is idempotent.

        :param job: a handle or a uuid; ``who``: its owner's name; ``token``: proves the claim to a board object that
            did not get it.
        :param by: the operator, for the history.
        :param reason: why, for the history and the record.
        :param error: as for :meth:`abandon`: the job's ``last_error``; None is the ``reason``.
        :param force: the former way to say that it is an operator's.
        :raises ClaimLost: with ``who``: the claim does not hold.
        :raises NotFound: without ``who``: it is not on the board.
        """
        if force:
            # Seen from here, the caller of the board is behind the call that this is a step of.
            warnings.warn("trash(..., force=True) is now trash(job, by=...)", DeprecationWarning, stacklevel=4)
            who, by, token = None, who if by is None else by, None
        if who is not None and by is not None:
            raise TypeError("give who to end a claim, or by for an operator's trash, not both")
        if who is None and token is not None:
            raise TypeError("token= proves the claim of an owner: give its name too, as who")
        texts = check_operator(by, reason)[1], check_reason(error, "error")
        fence = None if who is None else self._fences.of(job, who, token)
        uuid = self._handles.uuid_of(job)
        end = Trashing(uuid, fence, *texts, by=by if who is None else who)
        if fence is not None:
            self._fences.ending(fence.who, [fence])
        verdict, repeated = yield ItemRequest(self._backend.jobs.trash, end, uuid, len(texts[1] or ""))
        if fence is not None:
            self._fences.ended(fence, verdict, repeated, JobState.TRASHED)
        elif verdict_of(verdict) is Verdict.LOST:
            raise NotFound(f"no job {uuid} is on board {self._client.name!r}")

    def checkpoint(self, job: JobHandle | str, who: str, state: Any, *, token: int | None = None) -> None:
        """Save how far the work has come, for this owner or the next one. Atomic, durable and idempotent.

        :param job: a handle or a uuid; ``who``: its owner's name; ``token``: proves the claim to a board object that
            did not get it.
        :param state: plain data.
        :raises ClaimLost: the claim does not hold.
        :raises InvalidPosting: the state can't be stored.
        """
        fence = self._fences.of(job, who, token)
        verdict = self._client.call(self._backend.jobs.checkpoint, fence, self._client.encode("checkpoint", state))
        self._fences.raise_if_lost(fence, verdict)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _expiry_of(self, expiry: Seconds | None) -> float:
        return self._client.expiry if expiry is None else check_expiry(expiry)

    def _kept_for(self, retention: Seconds | None) -> float:
        return self._client.retention if retention is None else check_delay(retention, "retention")
