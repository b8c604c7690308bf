"""Several workers on one board, whose calls share requests: in threads with ``gather=True``, and in asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from jobboard import JobBoard
from jobboard.aio.board import AsyncJobBoard
from jobboard.aio.job import AsyncJob

from .records import Diary
from .worker import Stop, work

#: How many workers share a board.
_TOGETHER = "ab"


def work_in_threads(
    board: Any, diary: Diary, process: str, seed: int, rate: float, stop: Stop | threading.Event
) -> None:
    with ThreadPoolExecutor(len(_TOGETHER)) as threads:
        works = [threads.submit(work, board, diary, process + each, seed, rate, stop) for each in _TOGETHER]
        # The main thread looks about now and then, since only it runs the handlers of signals.
        while wait(works, 0.5).not_done:
            pass
    for ended in works:
        ended.result()


def work_in_asyncio(
    board: JobBoard, diary: Diary, process: str, seed: int, rate: float, stop: Stop | threading.Event
) -> None:
    async def run() -> None:
        awaited: Any = _Awaited(board, AsyncJobBoard(board), asyncio.get_running_loop())
        await asyncio.to_thread(work_in_threads, awaited, diary, process, seed, rate, stop)

    asyncio.run(run())


class _Awaited:
    """Has the calls of a worker made in an event loop, and waits for them."""

    def __init__(self, client: JobBoard, board: AsyncJobBoard, loop: asyncio.AbstractEventLoop) -> None:
        self._board, self._loop = board, loop
        # An operator's, who is no coroutine.
        self.limits = client.limits

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._board, name)
        return lambda *args, **kwargs: self._wait_for(method(*args, **kwargs))

    def iterjobs(self, **wanted: Any) -> list[Any]:
        return self._wait_for(_all_of(self._board.iterjobs(**wanted)))  # type: ignore[no-any-return]

    def _wait_for(self, answer: Any) -> Any:
        return _plain(asyncio.run_coroutine_threadsafe(answer, self._loop).result())


async def _all_of(jobs: Any) -> list[Any]:
    return [job async for job in jobs]


def _plain(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_plain(each) for each in answer]
    return answer._sync if isinstance(answer, AsyncJob) else answer
