"""``python move_jobs.py OLD NEW`` moves jobs and their logbooks from TaskFlow's own drivers to a board.

OLD and NEW are files of JSON: ``{"board": {...}, "persistence": {...}}``, each as TaskFlow's ``fetch`` takes it.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from taskflow.exceptions import UnclaimableJob
from taskflow.jobs import backends as boards
from taskflow.persistence import backends as persistences


def move_jobs(old_site: dict[str, Any], new_site: dict[str, Any]) -> int:
    """Return how many jobs were moved. May be run again if it was interrupted.

    Nobody may work on either board meanwhile: an owner of a job on the old one is taken to be dead.
    """
    with ExitStack() as stack:
        _, old = _open(old_site, stack)
        new_persistence, new = _open(new_site, stack)
        is_other = old_site["persistence"] != new_site["persistence"]
        jobs = sorted(old.iterjobs(ensure_fresh=True), key=lambda job: job.created_on)
        for job in jobs:
            # With what its flow has done so far.
            if is_other and job.book is not None:
                with closing(new_persistence.get_connection()) as connection:
                    connection.save_logbook(job.book)
            # A uuid that is on the board already is posted no second time.
            new.post(job.name, job.book, job.details, job.priority, uuid=job.uuid)
            owner = "move_jobs"
            try:
                old.claim(job, owner)
            except UnclaimableJob:
                owner = old.find_owner(job)
            old.consume(job, owner)
        return len(jobs)


def _open(site: dict[str, Any], stack: ExitStack) -> tuple[Any, Any]:
    persistence = stack.enter_context(closing(persistences.fetch(site["persistence"])))
    return persistence, stack.enter_context(boards.backend("moved", site["board"], persistence=persistence))


if __name__ == "__main__":
    sys.stdout.write(f"{move_jobs(*(json.loads(Path(name).read_text()) for name in sys.argv[1:3]))} moved\n")
