"""The steps of a durable handler: what is done is not done again, and what is waited for is remembered."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol

from jobboard.backends.edge_rows import SignalRow, StepRow
from jobboard.codec import decode, encode
from jobboard.conductor.awaited_jobs import check_jobs, fixed_jobs, with_uuids
from jobboard.conductor.job_facts import JobSnapshot
from jobboard.conductor.outcome import Broken, RunAgain, Suspended, Suspension, fixed_postings
from jobboard.errors import ClaimLost, InvalidPosting, UnreadableRecord
from jobboard.family import Parent
from jobboard.job import JobOrUuid, Posting, row_of
from jobboard.states import LIVE
from jobboard.types import Seconds
from jobboard.validation import MAX_TEXT, check_delay, check_text

#: How many recorded steps one request reads.
STEPS_PAGE = 50
#: The board checks the size.
_NO_LIMIT = 2**62
#: What the names of recorded sleeps and waits begin with, and of what the waits brought.
_OWN = ":"
_SLEEP, _WAIT, _SIGNAL, _TIMEOUT = ":sleep", ":wait ", ":signal ", ":timeout "
_JOBS, _ENDED = ":jobs ", ":ended "
#: Seconds after which it is looked again for jobs of which one is back from the trash.
_LOOK_AGAIN = 1.0
_MAX_SIGNAL = MAX_TEXT - len(_TIMEOUT)

_is_inside: ContextVar[bool] = ContextVar("jobboard_inside_a_step", default=False)


class StepsChanged(Broken):
    """The handler does not ask for a recorded step any more, or not in that order; the job goes to the trash."""


class StepNotStored(InvalidPosting, Broken):
    """What a step has returned can't be stored. The job goes to the trash: each attempt would repeat its effect."""


class StepContext(Protocol):
    """What steps ask of the conductor."""

    lost: bool

    def load_steps(self, first: int, size: int) -> list[StepRow]: ...
    def save_step(self, step: StepRow, seconds: float) -> None: ...
    def signals(self) -> list[SignalRow]: ...
    def parents(self) -> list[Parent]: ...


class Steps:
    """The steps of one run, in the order in which its handler asks for them; each was recorded before, or is now.

    Recorded steps are read when the first one is asked for, in pages. Steps are asked for one at a time.
    """

    def __init__(self, snapshot: JobSnapshot, context: StepContext) -> None:
        self._snapshot = snapshot
        self._context = context
        self._lock = threading.Lock()
        #: The number of the next step, and the recorded ones from there on, as far as they were read.
        self._number = 0
        self._recorded: deque[StepRow] = deque()
        self._is_all_read = False
        #: What ends the run, whatever the handler makes of it.
        self._end: Suspension | StepsChanged | None = None

    # -- what handlers ask for -------------------------------------------------------------------------------------

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """Return the recorded result of a step, or call it and record what it returns."""
        with self.alone(name):
            row = self.begin(name)
            if row is not None:
                return self.result_of(row)
            began = time.perf_counter()
            with inside_step():
                value = call()
            return self.save(name, value, time.perf_counter() - began)

    def sleep(self, seconds: Seconds) -> None:
        """Go on if the recorded sleep is over, or end the run until it is."""
        wanted = check_delay(seconds, "seconds")
        with self.alone("sleep"):
            left = self._left(self._take(_SLEEP), _SLEEP, wanted)
            if left > 0:
                self._suspend(left, None)

    def wait_for(self, name: str, timeout: Seconds | None) -> Any:
        """Return the value of a signal, or end the run until it is sent."""
        name = check_signal(name)
        wanted = None if timeout is None else check_delay(timeout, "timeout")
        with self.alone(f"wait for {name}"):
            begun = self._take(_WAIT + name)
            waits_for = wanted if begun is None else self.result_of(begun)
            left = self._left(begun, _WAIT + name, waits_for)
            if begun is None or (row := self._take(_SIGNAL + name, _TIMEOUT + name)) is None:
                return self._wait(name, waits_for, left)
            if row.name == _TIMEOUT + name:
                raise _timeout(name, waits_for)
            return self.result_of(row)

    def wait_for_jobs(self, name: str, jobs: Iterable[Posting | JobOrUuid]) -> list[Parent]:
        """Return how jobs have ended, in their order; or end the run until they have, and post the postings."""
        name = check_signal(name, "the name of a wait")
        wanted = with_uuids(check_jobs(jobs), self._snapshot.uuid, name)
        with self.alone(f"wait for jobs {name}"):
            begun = self._take(_JOBS + name)
            if begun is None:
                self.save(_JOBS + name, [_uuid_of(job) for job in wanted])
                self._suspend(0.0, None, fixed_jobs(wanted, fixed_postings))
            uuids: list[str] = self.result_of(begun)
            ended = self._take(_ENDED + name)
            parents = {parent.uuid: parent for parent in self._context.parents()}
            if ended is None and any(uuid not in parents or parents[uuid].state in LIVE for uuid in uuids):
                # The process of the run that began this has died before they were posted.
                self._suspend(_LOOK_AGAIN, None, fixed_jobs(wanted, fixed_postings))
            if ended is None:
                self.save(_ENDED + name, None)
            return [parents[uuid] for uuid in uuids]

    def _wait(self, name: str, seconds: float | None, left: float) -> Any:
        sent = next((signal for signal in self._context.signals() if signal.name == name), None)
        if sent is not None:
            return self.save(_SIGNAL + name, self._decoded(sent.value, f"the signal {name!r}"))
        if left > 0:
            self._suspend(None if seconds is None else left, name)
        self.save(_TIMEOUT + name, None)
        raise _timeout(name, seconds)

    def _left(self, begun: StepRow | None, name: str, seconds: float | None) -> float:
        """Return how many seconds are left of a sleep or a wait, by the store's clock; it is recorded if it is new."""
        if begun is None:
            self.save(name, seconds)
        if seconds is None:
            return 1.0
        # A claimed job's record says when it was claimed.
        return seconds if begun is None else begun.at + float(seconds) - row_of(self._snapshot.job).last_modified

    # -- the records -----------------------------------------------------------------------------------------------

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Refuse a step while another one of this job runs."""
        if _is_inside.get() or not self._lock.acquire(blocking=False):
            raise RuntimeError(f"the step {name!r} can't begin in another step of its job, or beside one")
        try:
            yield
        finally:
            self._lock.release()

    def begin(self, name: str) -> StepRow | None:
        """Return the recorded step that a handler asks for now; None if it is to be run."""
        row = self._take(check_step(name))
        if row is None and self._context.lost:
            raise ClaimLost(f"the claim of job {self._snapshot.uuid} does not hold any more; its steps end here")
        return row

    def result_of(self, row: StepRow) -> Any:
        """Return what a recorded step returned."""
        return self._decoded(row.result, f"the result of the step {row.name!r}")

    def _decoded(self, data: bytes, what: str) -> Any:
        try:
            return decode(data, converter=self._snapshot.converter)
        except ValueError as error:
            raise UnreadableRecord(f"{what} can't be decoded: {error}") from None

    def save(self, name: str, value: Any, seconds: float = 0.0) -> Any:
        """Record a step that is done, and return its result as later runs will read it."""
        what, converter = f"the result of the step {name!r}", self._snapshot.converter
        try:
            encoded = encode(what, value, largest=_NO_LIMIT, converter=converter)
            self._context.save_step(StepRow(self._number, name, encoded.data), seconds)
        except InvalidPosting as error:
            raise StepNotStored(str(error), path=error.path) from None
        self._number += 1
        return encoded.value

    def _take(self, *names: str) -> StepRow | None:
        """Return the next recorded step, which must have one of these names; None if there is no further one."""
        if self._end is not None:
            raise self._end
        row = self._next()
        if row is None:
            return None
        if row.name not in names:
            self._refuse(row, f"its handler asks for {_shown(names[0])} there now")
        self._recorded.popleft()
        self._number += 1
        return row

    def _next(self) -> StepRow | None:
        if not self._recorded and not self._is_all_read:
            self._recorded.extend(self._context.load_steps(self._number, STEPS_PAGE))
            self._is_all_read = len(self._recorded) < STEPS_PAGE
        return self._recorded[0] if self._recorded else None

    def _refuse(self, row: StepRow, but: str) -> NoReturn:
        self._end = StepsChanged(
            f"step {row.number + 1} of this job is recorded as {_shown(row.name)}, but {but}: let the handler ask for "
            f"its steps by their recorded names and in their order, and restore the job"
        )
        raise self._end

    # -- the end of the run ----------------------------------------------------------------------------------------

    def _suspend(
        self, seconds: float | None, signal: str | None, jobs: tuple[Posting | str, ...] | None = None
    ) -> NoReturn:
        self._end = Suspension(Suspended(seconds, signal, jobs))
        raise self._end

    def check_end(self) -> None:
        """Raise what ends the run, if a step has said so."""
        if self._end is not None:
            raise self._end

    def check_all_asked_for(self) -> None:
        """Raise what ends the run; also if its handler is done, and has not asked for all recorded steps."""
        self.check_end()
        row = self._next()
        if row is not None:
            self._refuse(row, "its handler has ended without it")

    def returned(self, result: Any) -> Any:
        """Return what a handler has returned, or what ends its run instead."""
        try:
            if isinstance(result, RunAgain):
                self.check_end()
            else:
                self.check_all_asked_for()
        except Suspension as end:
            return end.outcome
        return result

    def raised(self, error: BaseException) -> Suspended:
        """Return how a run is suspended whose handler has raised this; raise what ends it otherwise."""
        end = self._end or error
        if isinstance(end, Suspension):
            return end.outcome
        raise end


@contextmanager
def inside_step() -> Iterator[None]:
    """Let what runs now be a step's own work."""
    token = _is_inside.set(True)
    try:
        yield
    finally:
        _is_inside.reset(token)


def is_inside_step() -> bool:
    """Whether a step calls this."""
    return _is_inside.get()


def check_step(name: object) -> str:
    """Return the name of a step if it can be one."""
    text = check_text("a step's name", name)
    if text.startswith(_OWN):
        raise ValueError(f"a step's name must not begin with a colon: {text!r}")
    return text


def check_signal(name: object, what: str = "a signal's name") -> str:
    """Return the name of a signal, or of a wait for jobs, if a step can have it."""
    text = check_text(what, name)
    if len(text.encode()) > _MAX_SIGNAL:
        raise ValueError(f"{what} is over {_MAX_SIGNAL} bytes of UTF-8: {text!r}")
    return text


def _uuid_of(job: Posting | str) -> str:
    return str(job.uuid) if isinstance(job, Posting) else job


_SHOWN = (
    (_WAIT, "a wait for"),
    (_SIGNAL, "the signal"),
    (_TIMEOUT, "the timeout of a wait for"),
    (_JOBS, "a wait for the jobs"),
    (_ENDED, "the end of a wait for the jobs"),
)


def _shown(name: str) -> str:
    """Return how errors name a recorded step."""
    if name == _SLEEP:
        return "a sleep"
    for beginning, what in _SHOWN:
        if name.startswith(beginning):
            return f"{what} {name.removeprefix(beginning)!r}"
    return repr(name)


def _timeout(name: str, seconds: float | None) -> TimeoutError:
    return TimeoutError(f"the signal {name!r} was not sent within {seconds or 0.0:g} s")
