"""Operators' verbs: the former ways to call them, for asyncio, and what is said of a resume."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import UUID

import pytest

from jobboard import EventKind, JobBoard, JobState, backend
from jobboard.aio import AsyncJobBoard


@pytest.fixture
def board(request: pytest.FixtureRequest) -> Iterator[JobBoard]:
    with backend(request.node.name, "memory://") as board:
        yield board


def test_a_trash_by_force_is_still_an_operators(board: JobBoard) -> None:
    job = board.post("resize")
    board.claim(job, "alice")
    with pytest.warns(DeprecationWarning, match="by=") as warned:
        board.trash(job, "ada", reason="runaway", token=1, force=True)
    assert warned[0].filename == __file__
    line = job.history[-1]
    assert (job.state, line.who, line.reason) == (JobState.TRASHED, "ada", "runaway")


def test_the_third_argument_of_reprioritize_is_still_who(board: JobBoard) -> None:
    job = board.post("resize")
    with pytest.warns(DeprecationWarning, match="by=") as warned:
        assert board.reprioritize(job, "low", "ada")
    assert warned[0].filename == __file__
    assert job.history[-1].who == "ada"


def test_a_handle_of_another_board_is_refused(board: JobBoard) -> None:
    with backend("others", "memory://") as others:
        foreign = others.post("resize")
        others.trash(foreign)
        for verb in (board.cancel, board.release, board.run_now, board.trash, board.restore, board.purge):
            with pytest.raises(ValueError, match="others"):
                verb(foreign)
        assert [job.uuid for job in others.trashed()] == [foreign.uuid]


def test_a_resume_is_logged_with_by_whom_and_why(board: JobBoard, caplog: pytest.LogCaptureFixture) -> None:
    board.pause("resize")
    with caplog.at_level(logging.INFO, "jobboard.board"):
        board.resume("resize", by="ada", reason="mended\n2026 ERROR forged")
    [line] = [record.getMessage() for record in caplog.records]
    assert "ada" in line
    assert "mended" in line
    assert "\n" not in line


@pytest.mark.anyio
async def test_verbs_for_asyncio(board: JobBoard) -> None:
    wrapper = AsyncJobBoard(board)
    said = {"by": "ada", "reason": "disk full"}
    trashed, delayed = await wrapper.post("resize"), await wrapper.post("resize", delay=60)
    await wrapper.trash(trashed, **said)
    restored = await wrapper.restore(trashed, **said)
    await wrapper.trash(UUID(trashed.uuid), by="bob")
    assert await wrapper.run_now(delayed.uuid, **said)
    assert await wrapper.reprioritize(delayed, "low", **said)
    await wrapper.pause("resize", **said)
    [pause] = await wrapper.pauses()
    assert (pause.name, pause.by, pause.reason) == ("resize", "ada", "disk full")
    lines = [(line.kind, line.who) for line in (await restored.history)[1:]]
    assert lines == [(EventKind.TRASHED, "ada"), (EventKind.RESTORED, "ada"), (EventKind.TRASHED, "bob")]
    assert [line.who for line in (await delayed.history)[1:]] == ["ada", "ada"]
    await wrapper.purge(restored, **said)
    assert await wrapper.cancel(delayed, **said)
    assert board.job_count == 0
