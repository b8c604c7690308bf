"""Handlers whose effect is a row in the board's own database; on the way to their commit they are stopped, or die."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine
from sqlalchemy.engine import Engine
from sqlalchemy.pool import NullPool

from jobboard import Backoff, ClaimLost, Handlers, JobBoard, RunningJob, fetch
from jobboard.testing import eventually

handlers = Handlers(max_attempts=20, backoff=Backoff(first=0.01, factor=1, jitter=0))
metadata = MetaData()
effects = Table("effects", metadata, Column("uuid", String(36)), Column("pid", Integer))
#: Late owners that were refused, by their process.
refusals = Table("refusals", metadata, Column("uuid", String(36)), Column("pid", Integer))


@functools.cache
def engine() -> Engine:
    return create_engine(os.environ["EFFECTS_DATABASE"], poolclass=NullPool)


@functools.cache
def board_of_this_process() -> JobBoard:
    board = fetch("crew", os.environ["EFFECTS_BOARD"])
    board.connect()
    return board


def _board(job: RunningJob) -> JobBoard:
    try:
        return job.board
    except RuntimeError:
        return board_of_this_process()


def _strike(job: RunningJob, where: str) -> None:
    """Once for each job, die, or wait until this process was stopped until its claim was lost."""
    mark = Path(os.environ["EFFECTS_MARKS"], job.uuid)
    if job.details["where"] != where or mark.exists():
        return
    draft = mark.with_suffix(f".{os.getpid()}")
    draft.write_text(str(os.getpid()))
    draft.rename(mark)
    if job.details["signal"] == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    eventually(lambda: job.lost, 60)


@handlers.handler("effect")
def effect(job: RunningJob) -> None:
    row = {"uuid": job.uuid, "pid": os.getpid()}
    board = _board(job)
    _strike(job, "before the transaction")
    try:
        with engine().begin() as connection:
            connection.execute(effects.insert().values(row))
            _strike(job, "after the effect")
            job.complete(connection=connection, board=board)
            _strike(job, "before the commit")
        _strike(job, "after the commit")
    except ClaimLost:
        with engine().begin() as connection:
            connection.execute(refusals.insert().values(row))
        raise
