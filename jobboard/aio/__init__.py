"""The board for asyncio and Trio: the interface of :class:`jobboard.JobBoard`, awaited. Needs the extra ``aio``."""

from jobboard.errors import MissingExtra

try:
    import anyio as _anyio  # noqa: F401, whether it is there
except ModuleNotFoundError as error:
    raise MissingExtra("jobboard.aio needs the Python package 'anyio': pip install 'jobboard[aio]'") from error

from jobboard.aio.board import AsyncJobBoard
from jobboard.aio.events import EventStream
from jobboard.aio.fetching import Opening, backend, fetch
from jobboard.aio.fetching import open as open
from jobboard.aio.job import AsyncJob
from jobboard.aio.limits import AsyncLimits
from jobboard.aio.schedules import AsyncSchedules

# Without ``open``, which would hide the builtin one from who imports ``*``.
__all__ = [
    "AsyncJob",
    "AsyncJobBoard",
    "AsyncLimits",
    "AsyncSchedules",
    "EventStream",
    "Opening",
    "backend",
    "fetch",
]
