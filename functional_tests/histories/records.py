"""What a process called and what came back, line by line, so that a kill loses no line that was written.

Moments are those of ``CLOCK_MONOTONIC``, which all processes of a machine share and no step of a wall clock moves.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jobboard import BoardUnavailable, JobBoardError
from jobboard.errors import ReplyLost

#: What became of a call. ``refused``: the board's state forbids it. ``unavailable``: the store was away, and by the
#: board's word nothing was changed. ``unknown``: it may or may not have taken effect, also after the answer. ``raw``:
#: an error that is none of ours.
Outcome = Literal["ok", "refused", "unavailable", "unknown", "raw"]


@dataclass(frozen=True, slots=True)
class Op:
    """One call. ``end`` is infinite if nothing came back, since the process was killed."""

    id: str
    process: str
    op: str
    args: dict[str, Any]
    start: float
    end: float = math.inf
    outcome: Outcome = "unknown"
    answer: Any = None
    error: str = ""

    @property
    def uuid(self) -> str | None:
        return self.args.get("uuid")

    @property
    def token(self) -> int | None:
        return self.args.get("token")

    @property
    def latest(self) -> float:
        """The moment by which it has taken effect if ever; what is unknown may do so after the answer."""
        return self.end if self.outcome == "ok" else math.inf

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def may_have_happened(self) -> bool:
        return self.outcome in {"ok", "unknown", "raw"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What the nemesis did, and to whom; ``process`` is None for a fault of the store or of the lines to it."""

    kind: str
    start: float
    end: float
    process: str | None = None


class Diary:
    """Where one process writes its calls down."""

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._process = process
        self._numbers = itertools.count(1)

    def call(self, op: str, args: dict[str, Any], request: Callable[[], Any]) -> Op:
        """Make a call, and write down the call before it and its outcome after it."""
        id = f"{self._process}.{next(self._numbers)}"
        start = time.monotonic()
        self._write({"id": id, "process": self._process, "op": op, "args": args, "start": start})
        answer, error = None, ""
        try:
            answer = request()
            outcome: Outcome = "ok"
        except Exception as caught:
            outcome, error = _outcome_of(caught), f"{type(caught).__name__}: {caught}"
        end = time.monotonic()
        self._write({"id": id, "end": end, "outcome": outcome, "answer": answer, "error": error})
        return Op(id, self._process, op, args, start, end, outcome, answer, error)

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


class FaultDiary:
    """Where the nemesis writes its faults down; from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        with self._lock:
            self.faults.append(fault)
            with self._path.open("a") as file:
                line = {"kind": fault.kind, "start": fault.start, "end": fault.end, "process": fault.process}
                file.write(json.dumps(line) + "\n")


def _outcome_of(error: Exception) -> Outcome:
    if isinstance(error, ReplyLost):
        return "unknown"
    if isinstance(error, BoardUnavailable):
        return "unavailable"
    return "refused" if isinstance(error, JobBoardError) else "raw"


def read(paths: Iterable[Path]) -> list[Op]:
    """Return the calls of these diaries by the moments at which they began."""
    found: dict[str, dict[str, Any]] = {}
    for path in paths:
        for line in _lines_of(path):
            found.setdefault(line["id"], {}).update(line)
    return sorted((Op(**fields) for fields in found.values()), key=lambda op: op.start)


def _lines_of(path: Path) -> Iterator[dict[str, Any]]:
    for text in path.read_text().splitlines():
        try:
            yield json.loads(text)
        except ValueError:
            continue  # the process was killed in the middle of this line, which is the last one
