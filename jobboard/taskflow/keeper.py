"""Renews the claims that were made without an expiry, and shows the participants of a board as alive."""

from __future__ import annotations

import logging
import threading
import time
from typing import NamedTuple

from jobboard.backends.rows import Verdict
from jobboard.backends.thread_end import wait_for_thread
from jobboard.board import JobBoard, extend_each
from jobboard.errors import BoardUnavailable, JobBoardError
from jobboard.forks import watch_forks
from jobboard.heartbeat import Heartbeat
from jobboard.participants import Run
from jobboard.taskflow.job import TaskFlowJob

logger = logging.getLogger("jobboard.taskflow")

#: Seconds between two renewals at most.
_MAX_INTERVAL = 10.0
_STOP_TIMEOUT = 5.0


class Kept(NamedTuple):
    """A claim that is renewed, and the monotonic time since when."""

    who: str
    job: TaskFlowJob
    since: float


class Keeper:
    """One thread, which lives from the first claim or participant to ``close`` and sends nothing without them.

    :param expiry: seconds that a claim lasts without renewal.
    """

    def __init__(self, board: JobBoard, expiry: float) -> None:
        self._board = board
        self._expiry = expiry
        #: Seconds between two renewals, and between two looks whether a participant is to register.
        self.interval = min(expiry / 3, _MAX_INTERVAL)
        self._begin_anew_in_child()
        watch_forks(self)

    def _begin_anew_in_child(self) -> None:
        """In a forked child: the claims and the participants are the parent's, and end with it."""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._jobs: dict[str, Kept] = {}
        self._heartbeats: dict[str, Heartbeat] = {}
        self._thread: threading.Thread | None = None

    def keep(self, job: TaskFlowJob, who: str) -> None:
        """Renew a claim until it is dropped or lost."""
        with self._lock:
            older = self._jobs.get(job.uuid)
            if older is not None:
                # A newer claim of the same job proves that the older one is lost.
                older.job.claim_lost = True
            job.claim_lost = False
            self._jobs[job.uuid] = Kept(who, job, time.monotonic())
            self._ensure_thread()

    def drop(self, uuid: str, who: str) -> None:
        """Renew no more what this owner has claimed."""
        with self._lock:
            if uuid in self._jobs and self._jobs[uuid].who == who:
                del self._jobs[uuid]

    def runs_of(self, who: str) -> list[Run]:
        """Return the jobs that this owner has claimed without an expiry."""
        now = time.monotonic()
        with self._lock:
            kept = [claim for claim in self._jobs.values() if claim.who == who]
        return [Run(claim.job.uuid, claim.job.name, round(now - claim.since, 1)) for claim in kept]

    def show(self, name: str, heartbeat: Heartbeat) -> None:
        """Register a participant now and again, in place of an earlier one of this name."""
        heartbeat.register_when_due()
        with self._lock:
            self._heartbeats[name] = heartbeat
            self._ensure_thread()

    def hide(self, name: str) -> None:
        """Let a participant leave."""
        with self._lock:
            heartbeat = self._heartbeats.pop(name, None)
        if heartbeat is not None:
            heartbeat.leave()

    def close(self) -> None:
        """End the thread; the claims expire, and the participants leave."""
        self._closed.set()
        with self._lock:
            thread, heartbeats = self._thread, self._heartbeats
            self._heartbeats, self._jobs = {}, {}
        wait_for_thread(thread, _STOP_TIMEOUT)
        for heartbeat in heartbeats.values():
            heartbeat.leave()

    def _ensure_thread(self) -> None:
        if (self._thread is None or not self._thread.is_alive()) and not self._closed.is_set():
            self._thread = threading.Thread(target=self._run, name="jobboard-keeper", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(self.interval):
            try:
                self._renew_all()
            except Exception:
                # Without this thread all claims would expire, so it survives any fault.
                logger.exception("board %s met a fault while renewing", self._board.name)

    def _renew_all(self) -> None:
        with self._lock:
            claims, heartbeats = list(self._jobs.values()), list(self._heartbeats.values())
        for who in {claim.who for claim in claims}:
            self._renew(who, [claim.job for claim in claims if claim.who == who])
        for heartbeat in heartbeats:
            heartbeat.register_when_due()

    def _renew(self, who: str, jobs: list[TaskFlowJob]) -> None:
        try:
            answers = extend_each(self._board, [job.job for job in jobs], who, self._expiry)
        except JobBoardError as error:
            # A claim outlives two renewals that fail.
            logger.warning("board %s can't renew the claims of %s: %s", self._board.name, who, error)
            return
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, BoardUnavailable):
                logger.warning("board %s can't renew the claim of job %s: %s", self._board.name, job.uuid, answer)
            elif answer is Verdict.LOST:
                self._lose(job)

    def _lose(self, job: TaskFlowJob) -> None:
        with self._lock:
            held = self._jobs.get(job.uuid)
            if held is None or held.job is not job:
                # It ended while it was renewed.
                return
            del self._jobs[job.uuid]
            job.claim_lost = True
