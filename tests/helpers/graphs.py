"""Graphs of jobs for tests: posted by their names, with what each waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobboard import Job, JobBoard, JobPriority
from jobboard.backends.rows import IfFailed, NewJob, Ties
from jobboard.board import client_of
from jobboard.client.client import NO_UUID
from jobboard.payload import EMPTY_PAYLOAD


def post_graph(board: JobBoard, parents: Mapping[str, Sequence[str]], if_failed: str = "wait") -> dict[str, Job]:
    """Post a job for each name, which waits for those that are listed."""
    client = client_of(board)
    uuids = {name: f"{NO_UUID[:-12]}{number:012x}" for number, name in enumerate(parents, 1)}
    ties = Ties(if_failed=IfFailed(if_failed))
    new = [
        NewJob(
            uuids[name],
            name,
            int(JobPriority.NORMAL),
            EMPTY_PAYLOAD,
            ties=ties,
            parents=tuple(uuids[parent] for parent in of),
        )
        for name, of in parents.items()
    ]
    for part in client.batches(new):
        client.call(client.backend.jobs.post, part)
    return {name: board.get(uuid) for name, uuid in uuids.items()}


def end(board: JobBoard, job: Job) -> None:
    """Claim a job, and consume it."""
    board.claim(job, "worker")
    board.consume(job, "worker", {"ok": True})
