"""Graphs of jobs for tests: posted by their names, with what each waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobboard import Job, JobBoard, Posting
from jobboard.board import client_of


def post_graph(board: JobBoard, parents: Mapping[str, Sequence[str]], **options: Any) -> dict[str, Job]:
    """Post a job for each name, which waits for those that are listed, which stand before it."""
    postings: dict[str, Posting] = {}
    for name, of in parents.items():
        postings[name] = Posting(name, after=[postings[parent] for parent in of], **options)
    return dict(zip(parents, board.post_many(postings.values()), strict=True))


def end(board: JobBoard, job: Job) -> None:
    """Claim a job, and consume it."""
    board.claim(job, "worker")
    board.consume(job, "worker", {"ok": True})


def count_requests(board: JobBoard) -> list[str]:
    """Return what will have a line for each request that reads of edges and rows cost."""
    client, requests = client_of(board), list[str]()
    call = client.call

    def counted(primitive: object, *arguments: object) -> object:
        requests.append(getattr(primitive, "__name__", "?"))
        return call(primitive, *arguments)  # type: ignore[arg-type]

    client.call = counted  # type: ignore[method-assign, assignment]
    return requests
