"""What measuring TaskFlow's job boards has in common, whatever they are on."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from itertools import islice
from typing import Any

from measuring import System, picked_up, ran

_WHO = "bench"


class TaskFlow(System):
    """One of TaskFlow's boards.

    :param claim_options: what its claims take besides the job and the owner.
    """

    version = f"taskflow {importlib.metadata.version('taskflow')}"

    def __init__(self, uri: str, **claim_options: Any) -> None:
        self._uri = uri
        self._claim_options = claim_options
        self._job: Any = None
        self.board: Any = None

    def post(self, count: int) -> None:
        for _ in range(count):
            self.board.post("no-op")

    def ping(self, at: float) -> None:
        self.board.post("ping", details={"at": at})

    def look_for_each(self, count: int) -> None:
        for _ in range(count):
            job = next(iter(self.board.iterjobs(only_unclaimed=True)))
            self.board.claim(job, _WHO, **self._claim_options)
            self.board.consume(job, _WHO)

    def look_for_all(self, count: int) -> None:
        for job in islice(self.board.iterjobs(only_unclaimed=True), count):
            self.board.claim(job, _WHO, **self._claim_options)
            self.board.consume(job, _WHO)

    def claim(self) -> None:
        self._job = next(iter(self.board.iterjobs(only_unclaimed=True, ensure_fresh=True)))
        self.board.claim(self._job, _WHO, **self._claim_options)

    def give_back(self) -> None:
        self.board.abandon(self._job, _WHO)


def work_through(board: Any, jobs: Iterable[Any], **claim_options: Any) -> None:
    """Claim and consume one after the other; one look at the board serves for all that it found."""
    for job in jobs:
        if job.name == "ping":
            picked_up(job.details["at"])
        board.claim(job, _WHO, **claim_options)
        if job.name != "ping":
            ran()
        board.consume(job, _WHO)
