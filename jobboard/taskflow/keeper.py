"""Renews the claims that were made without an expiry, and shows the participants of a board as alive."""

from __future__ import annotations

import logging
import threading

from jobboard.backends.rows import Verdict
from jobboard.backends.thread_end import wait_for_thread
from jobboard.board import JobBoard, extend_each
from jobboard.errors import BoardUnavailable, JobBoardError
from jobboard.heartbeat import Heartbeat
from jobboard.taskflow.job import TaskFlowJob

logger = logging.getLogger("jobboard.taskflow")

#: Seconds between two renewals at most.
_MAX_INTERVAL = 10.0
_STOP_TIMEOUT = 5.0


class Keeper:
    """One thread, which lives from the first claim or participant to ``close`` and sends nothing without them.

    :param expiry: seconds that a claim lasts without renewal.
    """

    def __init__(self, board: JobBoard, expiry: float) -> None:
        self._board = board
        self._expiry = expiry
        self._interval = min(expiry / 3, _MAX_INTERVAL)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._jobs: dict[str, tuple[str, TaskFlowJob]] = {}
        self._heartbeats: list[Heartbeat] = []
        self._thread: threading.Thread | None = None

    def keep(self, job: TaskFlowJob, who: str) -> None:
        """Renew a claim until it is dropped or lost."""
        with self._lock:
            older = self._jobs.get(job.uuid)
            if older is not None:
                # A newer claim of the same job proves that the older one is lost.
                older[1].claim_lost = True
            job.claim_lost = False
            self._jobs[job.uuid] = (who, job)
            self._ensure_thread()

    def drop(self, uuid: str, who: str) -> None:
        """Renew no more what this owner has claimed."""
        with self._lock:
            if uuid in self._jobs and self._jobs[uuid][0] == who:
                del self._jobs[uuid]

    def show(self, heartbeat: Heartbeat) -> None:
        """Register a participant now and again."""
        heartbeat.register_when_due()
        with self._lock:
            self._heartbeats.append(heartbeat)
            self._ensure_thread()

    def close(self) -> None:
        """End the thread; the claims expire, and the participants leave."""
        self._closed.set()
        with self._lock:
            thread, heartbeats = self._thread, self._heartbeats
            self._heartbeats, self._jobs = [], {}
        wait_for_thread(thread, _STOP_TIMEOUT)
        for heartbeat in heartbeats:
            heartbeat.leave()

    def _ensure_thread(self) -> None:
        # It is not alive in a child after a fork.
        if (self._thread is None or not self._thread.is_alive()) and not self._closed.is_set():
            self._thread = threading.Thread(target=self._run, name="jobboard-keeper", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            try:
                self._renew_all()
            except Exception:
                # Without this thread all claims would expire, so it survives any fault.
                logger.exception("board %s met a fault while renewing", self._board.name)

    def _renew_all(self) -> None:
        with self._lock:
            claims, heartbeats = list(self._jobs.values()), list(self._heartbeats)
        for who in {who for who, _ in claims}:
            self._renew(who, [job for owner, job in claims if owner == who])
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
            if held is None or held[1] is not job:
                # It ended while it was renewed.
                return
            del self._jobs[job.uuid]
            job.claim_lost = True
