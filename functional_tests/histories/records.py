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
from typing import Any, Literal, TypeVar

from jobboard import BoardUnavailable, JobBoardError
from jobboard.errors import ReplyLost

_Value = TypeVar("_Value")

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
    """What the nemesis did, and to whom: a process, the line of one (``c0``, whichever process of it lives), the job
    whose row it locked; None for the store, and the lines to it that most share.
    """

    kind: str
    start: float
    end: float
    whom: str | None = None

    def is_on(self, process: str) -> bool:
        return self.whom in {None, process, process.partition(".")[0]}

    def overlap(self, start: float, end: float) -> float:
        """Return for how many seconds it went on between two moments."""
        return max(0.0, min(end, self.end) - max(start, self.start))


class Diary:
    """Where one process writes its calls down; all its threads may.

    :param process: as the faults name it.
    """

    def __init__(self, path: Path, process: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._process = process
        self._numbers = itertools.count(1)

    def call(self, op: str, args: dict[str, Any], request: Callable[[], Any]) -> Op:
        """Make a call, and write down the call before it and its outcome after it."""
        id, start = self._begin(op, args, time.monotonic())
        answer, error = None, ""
        try:
            answer = request()
            outcome: Outcome = "ok"
        except Exception as caught:
            outcome, error = told(caught)
        end = time.monotonic()
        self._write({"id": id, "end": end, "outcome": outcome, "answer": answer, "error": error})
        return Op(id, self._process, op, args, start, end, outcome, answer, error)

    def pass_on(
        self, op: str, args: dict[str, Any], request: Callable[[], _Value], shown: Callable[[_Value], Any]
    ) -> _Value:
        """Make a call for somebody else, write it down likewise, and return or raise what it does.

        :param shown: what is written down of its answer.
        """
        answers: list[_Value] = []
        errors: list[Exception] = []

        def ask() -> Any:
            try:
                answers.append(request())
            except Exception as error:
                errors.append(error)
                raise
            return shown(answers[0])

        self.call(op, args, ask)
        if errors:
            raise errors[0]
        return answers[0]

    def note(self, op: str, args: dict[str, Any], start: float, answer: Any) -> None:
        """Write down a call that somebody else has made."""
        id, _ = self._begin(op, args, start)
        self._write({"id": id, "end": time.monotonic(), "outcome": "ok", "answer": answer, "error": ""})

    def _begin(self, op: str, args: dict[str, Any], start: float) -> tuple[str, float]:
        id = f"{self._process}.{next(self._numbers)}"
        self._write({"id": id, "process": self._process, "op": op, "args": args, "start": start})
        return id, start

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
                line = {"kind": fault.kind, "start": fault.start, "end": fault.end, "whom": fault.whom}
                file.write(json.dumps(line) + "\n")


def told(error: Exception) -> tuple[Outcome, str]:
    """Return what is written down of an error."""
    return _outcome_of(error), f"{type(error).__name__}: {error}"


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
