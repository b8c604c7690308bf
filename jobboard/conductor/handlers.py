"""The handlers that a conductor may run: it calls only what was registered here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, overload

from jobboard.conductor.async_running_job import AsyncRunningJob
from jobboard.conductor.calling import is_async, place_of
from jobboard.conductor.declared_posting import Declared, DeclaredPosting
from jobboard.conductor.following import FollowUp
from jobboard.conductor.handler_options import HandlerOptions
from jobboard.conductor.lifespan import Lifespan, MakesResources
from jobboard.conductor.retrying import Backoff, ErrorRules
from jobboard.conductor.running_job import RunningJob
from jobboard.conductor.task import PlainDetails, R, Task, TaskDecorator, Typed
from jobboard.types import BackoffFunction, ErrorClasses, ExecutorName, IfExistsName, Priority, Seconds
from jobboard.validation import check_count, check_delay, check_text

#: The largest batch.
_MAX_BATCH = 1000


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How many jobs one call of a batch handler serves at most, and for how many seconds it waits for more."""

    size: int
    wait: float


@dataclass(frozen=True, slots=True)
class Handler:
    """One handler and its options; ``call`` runs it on a :class:`~jobboard.RunningJob`."""

    name: str
    task: Task[Any, ..., Any]
    call: Callable[[Any], Any] = field(repr=False)
    options: HandlerOptions
    #: Where it runs; None: in the conductor's own.
    executor: str | None = None
    #: Of a batch handler, whose ``call`` takes several jobs: how large its batches are.
    batch: BatchOptions | None = None
    #: For how many seconds the records of its completed jobs stay readable; None: as the conductor's board says.
    retention: float | None = None
    #: The lifespan of the collection that it was registered with.
    lifespan: Lifespan = field(default_factory=Lifespan)

    @property
    def max_attempts(self) -> int:
        """The failures after which a job of it goes to the trash, unless its posting says it."""
        return self.options.max_attempts

    @property
    def backoff(self) -> Backoff:
        """How long a job waits after a failure, unless a function says it by the error."""
        return self.options.plain_backoff

    @property
    def error_rules(self) -> ErrorRules:
        """What follows from the errors that it raises."""
        return self.options.error_rules

    @property
    def timeout(self) -> float | None:
        """Seconds after which a run counts as failed."""
        return self.options.timeout

    @property
    def give_up_after(self) -> float | None:
        """Seconds after its post, after which a job that fails goes to the trash."""
        return self.options.give_up_after

    @property
    def silent_for(self) -> float | None:
        """Seconds without a sign of life after which a run counts as failed."""
        return self.options.silent_for

    @property
    def on_trashed(self) -> FollowUp | None:
        """What follows when a job of it goes to the trash, unless its posting says it."""
        return self.task.declared.on_trashed

    @property
    def on_complete(self) -> FollowUp | None:
        """The same for when one is completed."""
        return self.task.declared.on_complete

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        return self.task.function

    @property
    def is_async(self) -> bool:
        """Whether a call returns a coroutine."""
        return is_async(self.function)


class Handlers:
    """Maps job names to functions; jobs of other names are left to other conductors.

    The arguments are the defaults of the handlers that are registered here:

    :param max_attempts: the failures after which a job goes to the trash; the posting's own number wins.
    :param backoff: how long to wait between attempts; None is :class:`~jobboard.Backoff` with its defaults.
    :param timeout: seconds after which a run counts as failed; None for no limit.
    :param broken_on: classes of errors that trash the job at once.
    :param give_up_after: seconds after its post, after which a job that fails is trashed; None for no limit.
    :param silent_for: seconds without a sign of life after which a run counts as failed; None for no limit.
    :raises ValueError: an option is out of its range.
    :raises TypeError: an argument is of another type.
    """

    def __init__(
        self,
        *,
        max_attempts: int = 5,
        backoff: Backoff | BackoffFunction | None = None,
        timeout: Seconds | None = None,
        broken_on: ErrorClasses = (),
        give_up_after: Seconds | None = None,
        silent_for: Seconds | None = None,
    ) -> None:
        self._handlers: dict[str, Handler] = {}
        self._lifespan = Lifespan()
        self._defaults = HandlerOptions().changed(
            max_attempts=max_attempts, backoff=backoff, timeout=timeout, broken_on=broken_on,
            give_up_after=give_up_after, silent_for=silent_for,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<Handlers {', '.join(map(repr, self._handlers)) or 'of no names'}>"

    @overload
    def handler(
        self,
        name: str | None = None,
        *,
        max_attempts: int | None = None,
        backoff: Backoff | BackoffFunction | None = None,
        timeout: Seconds | None = None,
        broken_on: ErrorClasses | None = None,
        give_up_after: Seconds | None = None,
        silent_for: Seconds | None = None,
        executor: ExecutorName | None = None,
        retention: Seconds | None = None,
        lane: Declared[str | None] = None,
        key: Declared[str | None] = None,
        key_for: Declared[Seconds | None] = None,
        if_exists: Declared[IfExistsName | None] = None,
        priority: Declared[Priority | None] = None,
        on_trashed: FollowUp | None = None,
        on_complete: FollowUp | None = None,
    ) -> TaskDecorator: ...
    @overload
    def handler(
        self, name: Callable[[AsyncRunningJob, Typed], Coroutine[Any, Any, R]], /
    ) -> Task[Typed, [AsyncRunningJob, Typed], Coroutine[Any, Any, R]]: ...
    @overload
    def handler(self, name: Callable[[RunningJob, Typed], R], /) -> Task[Typed, [RunningJob, Typed], R]: ...
    @overload
    def handler(
        self, name: Callable[[AsyncRunningJob], Coroutine[Any, Any, R]], /
    ) -> Task[PlainDetails, [AsyncRunningJob], Coroutine[Any, Any, R]]: ...
    @overload
    def handler(self, name: Callable[[RunningJob], R], /) -> Task[PlainDetails, [RunningJob], R]: ...
    @overload
    def handler(self, name: Callable[[Typed], R], /) -> Task[Typed, [Typed], R]: ...
    def handler(
        self,
        name: str | Callable[..., Any] | None = None,
        *,
        max_attempts: int | None = None,
        backoff: Backoff | BackoffFunction | None = None,
        timeout: Seconds | None = None,
        broken_on: ErrorClasses | None = None,
        give_up_after: Seconds | None = None,
        silent_for: Seconds | None = None,
        executor: ExecutorName | None = None,
        retention: Seconds | None = None,
        lane: Declared[str | None] = None,
        key: Declared[str | None] = None,
        key_for: Declared[Seconds | None] = None,
        if_exists: Declared[IfExistsName | None] = None,
        priority: Declared[Priority | None] = None,
        on_trashed: FollowUp | None = None,
        on_complete: FollowUp | None = None,
    ) -> Any:
        """Register the decorated function for jobs of this name, and return its :class:`~jobboard.Task`.

        The function, plain or ``async``, is called with a :class:`~jobboard.RunningJob`. If its second parameter, or
        its only one, is annotated with a dataclass, a TypedDict or a pydantic model, it gets the details as such; a job
        whose details don't fit goes to the trash. It returns the job's result (plain data or None), or
        :class:`~jobboard.RunAgain`; an exception is a failure.

        :param name: the job's name; without it, and in ``@handlers.handler`` without parentheses, the function's own.
        :param max_attempts: the failures after which the job goes to the trash; the posting's own number wins.
        :param backoff: how long to wait between attempts: a :class:`~jobboard.Backoff`, or a function of the attempt
            that failed (the first is 1) and its error, which returns seconds, or raises :class:`~jobboard.Broken` if no
            further attempt can help. It is called where the handler runs.
        :param timeout: seconds after which a run counts as failed; ``math.inf`` for no limit. None, here and above,
            takes the default of this collection.
        :param broken_on: a class of errors, or a tuple of such, that no further attempt can mend: they trash the job at
            once, as :class:`~jobboard.Broken` does.
        :param give_up_after: a job that fails later than so many seconds after its post is trashed, also if it has
            attempts left; ``math.inf`` for no limit. By the store's clock; a delay of the post counts, too.
        :param silent_for: seconds without a sign of life after which a run counts as failed: the handler has neither
            reported progress, nor ended a step, nor saved a checkpoint or a logbook; ``math.inf`` for no limit.
        :param executor: where it runs, such as ``"process"``; None: in the conductor's own executor.
        :param retention: seconds that the records of completed jobs, and so their results, stay readable; 0 for none.
            None: what the conductor's board says.
        :param lane: the lane of the jobs that its task posts (:meth:`~jobboard.Task.post`, :meth:`Posting.of`), or a
            function that makes it of the details that these take; what a call gives wins, None too. Jobs that are
            posted by name don't have it.
        :param key: the same for their ``key``, with ``key_for`` (seconds), which holds if a job has a key, and
            ``if_exists``. Jobs of schedules have keys of their own.
        :param priority: the same for their priority.
        :param on_trashed: a :class:`~jobboard.Posting`, or a function that makes one of a job's details (a dict): it is
            posted in the atomic step that moves a job to the trash, unless the job's posting has its own. What the
            task's :meth:`~jobboard.Task.post` posts has it; of other jobs it is posted when a conductor trashes them.
        :param on_complete: the same for jobs that are completed.
        :raises ValueError: the name has a handler already, or an option is out of its range.
        :raises TypeError: an argument is of another type, the function can't be called with one job, or it is a class.
        """

        def register(function: Callable[..., Any]) -> Task[Any, ..., Any]:
            if isinstance(function, type):
                raise TypeError(f"@handlers.handler is for functions; {place_of(function)} is a class")
            known_as = _own_name(function) if given is None else given
            return self._add(known_as, function, options, executor, retention, declared, None)

        options = self._defaults.changed(
            max_attempts=max_attempts, backoff=backoff, timeout=timeout, broken_on=broken_on,
            give_up_after=give_up_after, silent_for=silent_for,
        )  # fmt: skip
        declared = DeclaredPosting(
            lane=lane, key=key, key_for=key_for, if_exists=if_exists, priority=priority,
            on_trashed=on_trashed, on_complete=on_complete,
        )  # fmt: skip
        given = None if name is None or callable(name) else check_text("a handler's name", name)
        return register(name) if callable(name) else register

    def add(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        max_attempts: int | None = None,
        backoff: Backoff | BackoffFunction | None = None,
        timeout: Seconds | None = None,
        broken_on: ErrorClasses | None = None,
        give_up_after: Seconds | None = None,
        silent_for: Seconds | None = None,
        executor: ExecutorName | None = None,
        retention: Seconds | None = None,
        lane: Declared[str | None] = None,
        key: Declared[str | None] = None,
        key_for: Declared[Seconds | None] = None,
        if_exists: Declared[IfExistsName | None] = None,
        priority: Declared[Priority | None] = None,
        on_trashed: FollowUp | None = None,
        on_complete: FollowUp | None = None,
    ) -> Task[Any, ..., Any]:
        """Register a function, or another task's under a further name; arguments and errors as for :meth:`handler`."""
        options = self._defaults.changed(
            max_attempts=max_attempts, backoff=backoff, timeout=timeout, broken_on=broken_on,
            give_up_after=give_up_after, silent_for=silent_for,
        )  # fmt: skip
        declared = DeclaredPosting(
            lane=lane, key=key, key_for=key_for, if_exists=if_exists, priority=priority,
            on_trashed=on_trashed, on_complete=on_complete,
        )  # fmt: skip
        return self._add(name, function, options, executor, retention, declared, None)

    def batch(
        self,
        name: str,
        *,
        size: int = 100,
        wait: Seconds = 0.5,
        max_attempts: int | None = None,
        backoff: Backoff | BackoffFunction | None = None,
        timeout: Seconds | None = None,
        broken_on: ErrorClasses | None = None,
        give_up_after: Seconds | None = None,
        silent_for: Seconds | None = None,
        executor: ExecutorName | None = None,
        retention: Seconds | None = None,
        lane: Declared[str | None] = None,
        key: Declared[str | None] = None,
        key_for: Declared[Seconds | None] = None,
        if_exists: Declared[IfExistsName | None] = None,
        priority: Declared[Priority | None] = None,
        on_trashed: FollowUp | None = None,
        on_complete: FollowUp | None = None,
    ) -> Callable[[Callable[..., Any]], Task[Any, ..., Any]]:
        """Register the decorated function for jobs of this name, and call it with several of them at a time.

        It is called with a list of :class:`~jobboard.BatchJob`; if its second parameter is annotated with a list of a
        dataclass, a TypedDict or a pydantic model, also with a list of their details. Each job has its own claim and
        its own end, and the batch takes one slot:

        - returns the function None, all jobs are completed;
        - returns it a dict, each job is completed with its result, by the job or its uuid, or ends as its own handler
          would that had raised it, if that is an exception;
        - raises it, all jobs have failed that it has not ended by itself, each as by its own attempts and backoff;
        - ``job.fail(error)`` lets one job fail alone, whatever the function returns or raises.

        ``job.step``, ``job.sleep`` and ``job.wait_for`` are refused.

        :param size: how many jobs at most, 1 to 1000; the first one may be alone.
        :param wait: for how many seconds the first one waits for others, while there are fewer.
        :raises ValueError: an option is out of its range, or the name has a handler already.
        :raises TypeError: an argument is of another type, or the function can't be called with a list.
        """
        known_as = check_text("a handler's name", name)
        options = self._defaults.changed(
            max_attempts=max_attempts, backoff=backoff, timeout=timeout, broken_on=broken_on,
            give_up_after=give_up_after, silent_for=silent_for,
        )  # fmt: skip
        declared = DeclaredPosting(
            lane=lane, key=key, key_for=key_for, if_exists=if_exists, priority=priority,
            on_trashed=on_trashed, on_complete=on_complete,
        )  # fmt: skip
        batch = BatchOptions(check_count("size", size, most=_MAX_BATCH), check_delay(wait, "wait"))

        def register(function: Callable[..., Any]) -> Task[Any, ..., Any]:
            return self._add(known_as, function, options, executor, retention, declared, batch)

        return register

    def _add(
        self,
        name: str,
        function: Callable[..., Any],
        options: HandlerOptions,
        executor: str | None,
        retention: Seconds | None,
        declared: DeclaredPosting,
        batch: BatchOptions | None,
    ) -> Task[Any, ..., Any]:
        check_text("a handler's name", name)
        if not callable(function):
            raise TypeError(f"a handler must be callable, not {type(function).__name__}")
        plain = function.function if isinstance(function, Task) else function
        if executor is not None:
            check_text("a handler's executor", executor)
        kept = None if retention is None else check_delay(retention, "retention")
        self._check_free(name, plain)
        task: Task[Any, ..., Any] = Task(name, plain, declared, batch is not None)
        self._handlers[name] = Handler(name, task, task.call, options, executor, batch, kept, self._lifespan)
        return task

    @overload
    def lifespan(self, *, timeout: Seconds = 60.0) -> Callable[[MakesResources], MakesResources]: ...
    @overload
    def lifespan(self, function: MakesResources, /) -> MakesResources: ...
    def lifespan(self, function: Any = None, *, timeout: Seconds = 60.0) -> Any:
        """Make what these handlers need, once in each process that runs them, and close it when the conductor stops.

        The decorated generator function makes it, yields it to the handlers as ``job.resources``, and closes it
        after the ``yield``, when no handler runs any more. One that fails or is late keeps its conductor from starting.
        An ``async`` one runs on the event loop of the executor ``"asyncio"``, for ``async`` handlers there.

        :param function: takes no arguments, and yields once: any object.
        :param timeout: seconds until it must have yielded.
        :returns: the function itself.
        :raises ValueError: there is a lifespan already, or the timeout is out of its range.
        :raises TypeError: it is no generator function, or needs arguments; or the timeout is no number.
        """
        seconds = check_delay(timeout, "timeout")

        def register(made_by: Callable[[], Any]) -> Callable[[], Any]:
            self._lifespan.register(made_by, seconds)
            return made_by

        return register if function is None else register(function)

    def include(self, others: Handlers) -> None:
        """Register all handlers of another collection, with the options and the lifespan that they have there.

        :raises ValueError: one of its names has a handler already; none is registered then.
        """
        for handler in others:
            self._check_free(handler.name, handler.function)
        self._handlers.update(others._handlers)

    def _check_free(self, name: str, function: Callable[..., Any]) -> None:
        if name in self._handlers:
            there = place_of(self._handlers[name].function)
            raise ValueError(f"there is a handler for {name!r} already: {there}; {place_of(function)} can't be another")

    @property
    def names(self) -> frozenset[str]:
        """The names that have a handler."""
        return frozenset(self._handlers)

    def copy(self) -> Handlers:
        """Return a copy that later registrations don't change."""
        return self.only(self._handlers)

    def only(self, names: Collection[str]) -> Handlers:
        """Return a copy with the handlers of these names, and no others."""
        copied = Handlers()
        copied._defaults, copied._lifespan = self._defaults, self._lifespan
        copied._handlers.update((name, handler) for name, handler in self._handlers.items() if name in names)
        return copied

    def with_tasks(self, change: Callable[[Task[Any, ..., Any]], Task[Any, ..., Any]]) -> Handlers:
        """Return a copy whose handlers run what ``change`` returns for their tasks; their names and options stay."""
        copied = self.copy()
        for name, handler in self._handlers.items():
            task = change(handler.task)
            copied._handlers[name] = replace(handler, task=task, call=task.call)
        return copied

    def __getitem__(self, name: str) -> Handler:
        return self._handlers[name]

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)


def _own_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    if name is None:
        raise TypeError(f"{function!r} has no name of its own; register it by handlers.add(name, function)")
    return str(name)
