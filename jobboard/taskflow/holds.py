"""Which claim of this process a flow runs under; it fences the logbooks, in whatever thread the engine runs."""

from __future__ import annotations

import threading

from jobboard.job import Job

#: More claims than that no process has; the oldest are forgotten.
_MAX_HOLDS = 10_000


class Holds:
    """The claims by the uuid of what they cover: the flow detail that the job names, or else its whole logbook.

    A claim that is lost stays here until another one of this process replaces it: an engine that comes late must not
    save without a claim.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[str, Job]] = {}

    def take(self, place: str, job: Job) -> None:
        """A board at this place has claimed a job."""
        covered = _covered_by(job)
        if covered is None:
            return
        with self._lock:
            self._jobs.pop(covered, None)
            self._jobs[covered] = (place, job)
            if len(self._jobs) > _MAX_HOLDS:
                del self._jobs[next(iter(self._jobs))]

    def give_back(self, job: Job) -> None:
        """The claim has ended well."""
        covered = _covered_by(job)
        with self._lock:
            if covered is not None and covered in self._jobs and self._jobs[covered][1].uuid == job.uuid:
                del self._jobs[covered]

    def of(self, *uuids: str) -> tuple[str, Job] | None:
        """Return the claim that covers the first of these that any covers, and where its board is."""
        with self._lock:
            return next((self._jobs[uuid] for uuid in uuids if uuid in self._jobs), None)


def _covered_by(job: Job) -> str | None:
    flow = (job.details or {}).get("flow_uuid")
    return flow if isinstance(flow, str) else job.book_uuid


#: Those of this process: who persists need not be who claims.
HOLDS = Holds()
