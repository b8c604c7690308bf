"""A function that conductors run for jobs of one name, and by which these jobs are posted."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

from jobboard.board import JobBoard, client_of
from jobboard.conductor.async_running_job import AsyncRunningJob
from jobboard.conductor.batch_calling import BatchCall, batch_call_of
from jobboard.conductor.calling import call_of, details_type_of, is_async, place_of
from jobboard.conductor.declared_posting import DeclaredPosting
from jobboard.conductor.encoded_details import encode_details
from jobboard.conductor.running_job import RunningJob
from jobboard.converter import NO_CONVERTER, Converter
from jobboard.job import Job, PostOptions

if TYPE_CHECKING:
    from typing import Unpack

    from jobboard.aio import AsyncJob, AsyncJobBoard


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class _Model(Protocol):
    @property
    def model_dump(self) -> Callable[..., dict[str, Any]]: ...


#: The details of a task whose function takes the job alone.
PlainDetails: TypeAlias = dict[str, Any] | None

Details = TypeVar("Details")
#: What a function may ask for: a dataclass, a pydantic model or a TypedDict.
Typed = TypeVar("Typed", bound="_Dataclass | _Model | Mapping[str, object]")
P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[Details, P, R]):
    """A function that conductors run for jobs of one name, as :meth:`Handlers.handler` returns it.

    It can be called as the function itself, and that is how it runs. :meth:`post` and :meth:`encode` take details of
    the type that the function asks for by its annotation; a function that takes the job alone has a dict or None.

    :param name: the name of its jobs.
    :param declared: how its jobs are posted unless a call says otherwise.
    :param is_batch: whether the function is called with several jobs.
    :raises TypeError: the function can't be called with one job.
    """

    def __init__(
        self,
        name: str,
        function: Callable[P, R],
        declared: DeclaredPosting | None = None,
        is_batch: bool = False,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        #: The name of its jobs.
        self.name = name
        #: The function itself.
        self.function = function
        #: How its jobs are posted unless a call says otherwise.
        self.declared = DeclaredPosting() if declared is None else declared
        self.is_batch = is_batch
        #: Runs the function on a job, or on the jobs of a batch.
        self.call: Callable[[Any], Any] = batch_call_of(name, function) if is_batch else call_of(name, function)
        self._details_type = self.call.kind if isinstance(self.call, BatchCall) else details_type_of(self.call)
        if is_async(function) and sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @overload
    def post(
        self: Task[PlainDetails, P, R], board: JobBoard, details: PlainDetails = None, **options: Unpack[PostOptions]
    ) -> Job: ...
    @overload
    def post(
        self: Task[PlainDetails, P, R],
        board: AsyncJobBoard,
        details: PlainDetails = None,
        **options: Unpack[PostOptions],
    ) -> Coroutine[Any, Any, AsyncJob]: ...
    @overload
    def post(self, board: JobBoard, details: Details, **options: Unpack[PostOptions]) -> Job: ...
    @overload
    def post(
        self, board: AsyncJobBoard, details: Details, **options: Unpack[PostOptions]
    ) -> Coroutine[Any, Any, AsyncJob]: ...
    def post(self, board: Any, details: Any = None, **options: Any) -> Any:
        """Post a job for this task, as :meth:`JobBoard.post` does.

        :param board: a board, or one for asyncio, whose post is awaited.
        :param details: of the type that the function asks for; see :meth:`encode`.
        :param options: all others of :meth:`JobBoard.post`, by their names; they win over what the handler declares, a
            None too.
        :returns: a :class:`~jobboard.Job`; of an :class:`~jobboard.aio.AsyncJobBoard` an
            :class:`~jobboard.aio.AsyncJob`, to be awaited.
        :raises InvalidPosting: a field of the details is of another type, ``path`` names it; or a function of the
            handler's declaration raised an exception, or returned what can't be. Nothing is sent.
        :raises TypeError: these are no details of this task, or that is no board.
        """
        plain = self._encode(details, client_of(_board_below(board)).converter or NO_CONVERTER)
        return board.post(self.name, details=plain, **self.posting_options(details, plain, options))

    def posting_options(self, details: Any, plain: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a posting: those that are given, and what the declaration says beside them."""
        return self.declared.of_posting(self.name, details, plain, given)

    def schedule_options(self, details: Any, given: Collection[str]) -> dict[str, Any]:
        """Return what the declaration says of the jobs of a schedule, but for the given arguments."""
        return self.declared.of_schedule(self.name, details, given)

    def encode(self, details: Details, /) -> dict[str, Any]:
        """Return details as the plain data that a job carries, and of which conductors make equal details.

        Tuples come back as lists where the annotation is no tuple, and datetimes as UTC. If they are posted on a board
        with a :class:`~jobboard.Converter`, its types become there what it makes of them.

        :raises InvalidPosting: a field is of another type, or would not come back; ``path`` names it.
        :raises TypeError: these are no details of this task.
        """
        return self._encode(details, None)

    def _encode(self, details: Any, converter: Converter | None) -> dict[str, Any]:
        kind = self._details_type
        if kind is None:
            return self._plain(details)
        if details is None:
            raise TypeError(f"the task {self.name!r} needs details: {kind.__qualname__}")
        if type(details) is not kind and not (issubclass(kind, dict) and isinstance(details, dict)):
            raise TypeError(
                f"details of the task {self.name!r} must be {kind.__qualname__}, not {type(details).__qualname__}"
            )
        return encode_details(kind, details, converter)

    def _plain(self, details: object) -> dict[str, Any]:
        if details is not None and not isinstance(details, dict):
            raise TypeError(
                f"details of the task {self.name!r} must be a dict or None, not {type(details).__name__}: "
                "its function takes the job alone"
            )
        return {} if details is None else details

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {place_of(self.function)}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        found = _found_at(self.function)
        if found is self:
            # By its place, as a function.
            return str(self.function.__qualname__)
        if isinstance(found, Task) and found.function is self.function:
            # Another name of one function.
            return _named, (self.name, found, self.is_batch)
        # Without what it declares: that is posted where conductors are, not in their workers, and a lambda can't be
        # pickled.
        return Task, (self.name, self.function, None, self.is_batch)


def _named(name: str, task: Task[Any, ..., Any], is_batch: bool = False) -> Task[Any, ..., Any]:
    return Task(name, task.function, is_batch=is_batch)


def _found_at(function: Callable[..., Any]) -> Any:
    """Return what a program finds where it has defined a function: the task that was made of it last, or None."""
    found: Any = sys.modules.get(getattr(function, "__module__", None) or "")
    for name in getattr(function, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found


def _board_below(board: object) -> JobBoard:
    if isinstance(board, JobBoard):
        return board
    # A caller that has such a board has imported its module.
    aio = sys.modules.get("jobboard.aio.board")
    if aio is None or not isinstance(board, aio.AsyncJobBoard):
        raise TypeError(f"board must be a JobBoard or an AsyncJobBoard, not {type(board).__name__}")
    return cast(JobBoard, board._sync)


class TaskDecorator(Protocol):
    """Registers a function, and returns its task."""

    @overload
    def __call__(
        self, function: Callable[[AsyncRunningJob, Typed], Coroutine[Any, Any, R]], /
    ) -> Task[Typed, [AsyncRunningJob, Typed], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[[RunningJob, Typed], R], /) -> Task[Typed, [RunningJob, Typed], R]: ...
    @overload
    def __call__(
        self, function: Callable[[AsyncRunningJob], Coroutine[Any, Any, R]], /
    ) -> Task[PlainDetails, [AsyncRunningJob], Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[[RunningJob], R], /) -> Task[PlainDetails, [RunningJob], R]: ...
    @overload
    def __call__(self, function: Callable[[Typed], R], /) -> Task[Typed, [Typed], R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[Any, ..., Any]: ...
