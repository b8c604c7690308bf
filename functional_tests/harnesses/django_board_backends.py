"""Boards that do for Django's own tests what its dummy and its immediate backend do."""

from __future__ import annotations

import os
from typing import Any

from django.tasks.backends import dummy, immediate

from jobboard import Conductor
from jobboard.contrib.django import JobBoardBackend, task_handlers


class OnBoard(JobBoardBackend):
    """On the board of ``SUITE_URI``; what fails is not tried again, as with Django's backends."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        given = params.get("OPTIONS", {})
        ours = {"uri": os.environ["SUITE_URI"], "name": f"suite-{alias}", "max_attempts": 1}
        super().__init__(alias, {**params, "OPTIONS": {**ours, **given}})
        self.options = given


class Posting(OnBoard):
    """Posts tasks, and lists their results."""

    @property
    def results(self) -> list[Any]:
        return [self.get_result(job.uuid) for job in self.site.board().iterjobs()]

    def clear(self) -> None:
        board = self.site.board()
        for job in list(board.iterjobs()):
            board.cancel(job)


class Running(OnBoard):
    """Returns a result when a conductor has run the task."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        board = self.site.board()
        conductor = Conductor("suite", board, task_handlers(self.alias))
        conductor.start()
        try:
            board.get(result.id).wait(30)
        finally:
            conductor.stop(timeout=30)
        return self.get_result(result.id)


def take_their_place() -> None:
    """Let the settings and the imports of Django's tests find boards where they name its backends."""
    dummy.DummyBackend = Posting
    immediate.ImmediateBackend = Running
