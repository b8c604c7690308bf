"""A board on which processes are busy while its store loses a host."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harnesses.diaries import whole_lines
from jobboard import fetch
from jobboard.testing import eventually

BOARD = "busy"
#: A producer and its workers.
_ROLES = ("produce", "work", "work")
_PATIENCE = 60.0


def goes_on(fail_over: Callable[[], object], uri: str, folder: Path, **options: Any) -> None:
    """Let a producer and two workers, a process each, be busy while their store fails over.

    All that was acknowledged has happened, and each job has run once.

    :param options: of the boards.
    """
    options = {"patience": _PATIENCE, **options}
    with _processes(folder, uri, options) as (producer, *workers):
        said = [folder / f"{number}" for number in range(len(_ROLES))]

        def told(what: str) -> Counter[str]:
            return Counter(uuid for path in said for kind, uuid in map(str.split, whole_lines(path)) if kind == what)

        def until_more() -> None:
            before = told("consumed").total()
            eventually(lambda: told("consumed").total() >= before + 30, within=_PATIENCE, every=0.1)

        # A process that starts meanwhile would find no board, which is no fault of it.
        eventually(lambda: all(any(whole_lines(path)) for path in said), within=_PATIENCE, every=0.1)
        until_more()
        fail_over()
        until_more()
        _end(producer)
        posted = told("posted")
        eventually(lambda: told("consumed").total() >= len(posted), within=_PATIENCE, every=0.1)
        for worker in workers:
            _end(worker)
        assert told("ran") == posted
        assert told("consumed") == posted
    with fetch(BOARD, uri, **options) as board:
        assert (board.job_count, board.audit()) == (0, [])


@contextmanager
def _processes(folder: Path, uri: str, options: dict[str, Any]) -> Iterator[list[subprocess.Popen[bytes]]]:
    program = Path(__file__).with_name("busy_process.py")
    processes = []
    try:
        for number, role in enumerate(_ROLES):
            command = [sys.executable, str(program), role, uri, BOARD, json.dumps(options)]
            with (folder / str(number)).open("wb") as output:
                processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(_PATIENCE) == 0
