"""How a batch handler is called: with several jobs, of which each has an end of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, get_args

from jobboard.conductor.async_running_job import AsyncRunningJob
from jobboard.conductor.calling import annotations_of, is_async, signature_of, title_of
from jobboard.conductor.outcome import Batched, Failed, Outcome, Succeeded, judged, outcome_of_result, read_error
from jobboard.conductor.run_context import begin_batch
from jobboard.conductor.running_job import CheckpointNotStored, Made, RunningJob
from jobboard.conductor.typed_details import InvalidDetails, check_record, fit_details, is_record
from jobboard.errors import InvalidPosting

_ADVICE = (
    "It gets a list of jobs, and a list of their details as well if its second parameter is annotated with a list of a "
    "dataclass, a TypedDict or a pydantic model"
)


def _refuse(what: str, name: str) -> NoReturn:
    raise RuntimeError(
        f"job.{what} can't be used in the batch handler {name!r}, since its call serves other jobs; use a handler for "
        "single jobs"
    )


class BatchJob(RunningJob[Made]):
    """One job of a batch, as its batch handler sees it; each is claimed, renewed, and ends by itself."""

    #: What the handler has said becomes of it.
    _outcome: Outcome | None = None

    def fail(self, error: BaseException | str) -> None:
        """Let this job alone fail, as if its own handler had raised this; the last call counts.

        :param error: an exception, such as :class:`~jobboard.Broken`; or a text.
        :raises TypeError: it is neither.
        """
        if isinstance(error, str):
            self._outcome = Failed(error)
        elif isinstance(error, BaseException):
            self._outcome = _outcome_of_error(error, self)
        else:
            raise TypeError(f"error must be an exception or a str, not {type(error).__name__}")

    def checkpoint_state(self, state: Any) -> None:
        """Write a checkpoint, as :meth:`RunningJob.checkpoint_state` does.

        :raises InvalidPosting: the state can't be stored; of a batch that is an attempt that has failed.
        """
        try:
            super().checkpoint_state(state)
        except CheckpointNotStored as error:
            # What ends the call ends all its jobs, and the others are not to blame.
            raise InvalidPosting(str(error), path=error.path) from None

    def step(self, name: str, fn: Any, /, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: a batch has no steps."""
        _refuse("step", self.name)

    def sleep(self, seconds: Any) -> NoReturn:
        """Refused: a batch does not sleep."""
        _refuse("sleep", self.name)

    def wait_for(self, name: str, timeout: Any = None) -> NoReturn:
        """Refused: a batch waits for no signals."""
        _refuse("wait_for", self.name)

    def wait_for_jobs(self, name: str, jobs: Any) -> NoReturn:
        """Refused: a batch waits for no jobs; one of its jobs may, by ``RunAgain(after=[...])``."""
        _refuse("wait_for_jobs", self.name)


class AsyncBatchJob(AsyncRunningJob[Made]):
    """One job of a batch, as its ``async`` batch handler sees it."""

    _job: BatchJob[Made]

    def fail(self, error: BaseException | str) -> None:
        """Let this job alone fail, as :meth:`BatchJob.fail` does; not to be awaited."""
        self._job.fail(error)

    def step(self, name: str, fn: Any, /, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused: a batch has no steps."""
        _refuse("step", self.name)

    def sleep(self, seconds: Any) -> NoReturn:
        """Refused: a batch does not sleep."""
        _refuse("sleep", self.name)

    def wait_for(self, name: str, timeout: Any = None) -> NoReturn:
        """Refused: a batch waits for no signals."""
        _refuse("wait_for", self.name)

    def wait_for_jobs(self, name: str, jobs: Any) -> NoReturn:
        """Refused: a batch waits for no jobs; one of its jobs may, by ``RunAgain(after=[...])``."""
        _refuse("wait_for_jobs", self.name)


class BatchCall:
    """Calls a batch handler, and says what becomes of each job.

    :param kind: the type of the details that it asks for; None if it takes the jobs alone.
    """

    def __init__(self, function: Callable[..., Any], kind: type | None) -> None:
        self._function = function
        self.kind = kind
        self.is_async = is_async(function)

    def __call__(self, jobs: Sequence[BatchJob]) -> Any:
        begin_batch(jobs[0].name)
        fitting, details = self._fit(jobs)
        if self.is_async:
            return self._await(jobs, fitting, details)
        try:
            result = self._function(fitting, *details) if fitting else None
        except BaseException as error:
            return _failed(jobs, error)
        return _ended(jobs, result)

    async def _await(self, jobs: Sequence[BatchJob], fitting: list[BatchJob], details: list[Any]) -> Batched:
        own = [AsyncBatchJob(job) for job in fitting]
        try:
            result = await self._function(own, *details) if own else None
            for job in own:
                await job.finish()
        except BaseException as error:
            return _failed(jobs, error)
        return _ended(jobs, result)

    def _fit(self, jobs: Sequence[BatchJob]) -> tuple[list[BatchJob], list[Any]]:
        """Return the jobs whose details fit, and (in a list, if they are asked for) their details; the others fail."""
        if self.kind is None:
            return list(jobs), []
        fitting: list[BatchJob] = []
        details: list[Any] = []
        for job in jobs:
            try:
                details.append(fit_details(self.kind, job.details))
                fitting.append(job)
            except InvalidDetails as error:
                job.fail(error)
        return fitting, [details]


def _failed(jobs: Sequence[BatchJob], error: BaseException) -> Batched:
    # The text of the error is made once, however many jobs there are.
    outcome = read_error(error)
    return Batched(tuple(job._outcome or judged(outcome, error, job._snapshot) for job in jobs))


def _ended(jobs: Sequence[BatchJob], result: Any) -> Batched:
    try:
        results = _results_of(jobs, result)
    except TypeError as error:
        return _failed(jobs, error)
    return Batched(tuple(job._outcome or _outcome_of(results.get(job.uuid), job) for job in jobs))


def _results_of(jobs: Sequence[BatchJob], result: Any) -> dict[str, Any]:
    """Return what a batch handler has returned for each job, by its uuid.

    :raises TypeError: it is no mapping from jobs of the batch.
    """
    if result is None:
        return {}
    if not isinstance(result, Mapping):
        raise TypeError(f"a batch handler returns None or a dict of job -> result, not {type(result).__name__}")
    uuids = {job.uuid for job in jobs}
    results = {key if isinstance(key, str) else getattr(key, "uuid", None): value for key, value in result.items()}
    if not uuids >= results.keys():
        raise TypeError("a batch handler returned a result for what is no job of its batch")
    return results  # type: ignore[return-value]  # every key is a uuid


def _outcome_of(result: Any, job: BatchJob) -> Outcome:
    if result is None:
        return Succeeded()
    return _outcome_of_error(result, job) if isinstance(result, BaseException) else outcome_of_result(result)


def _outcome_of_error(error: BaseException, job: BatchJob) -> Outcome:
    return judged(read_error(error), error, job._snapshot)


def batch_call_of(name: str, function: Callable[..., Any]) -> BatchCall:
    """Return what runs a batch handler on its jobs.

    :raises TypeError: the handler can't be called so.
    """
    annotations = annotations_of(function)
    kind = _record_in(annotations[1]) if len(annotations) > 1 else None
    try:
        signature_of(function).bind(*[[]] * (1 if kind is None else 2))
    except TypeError as error:
        title = title_of(name, function)
        raise TypeError(f"{title} can't be called with a list of jobs: {error}. {_ADVICE}") from None
    if kind is not None:
        check_record(kind)
    return BatchCall(function, kind)


def _record_in(annotation: Any) -> type | None:
    """Return the record of which an annotation is a list."""
    kinds = get_args(annotation)
    return kinds[0] if len(kinds) == 1 and is_record(kinds[0]) else None
