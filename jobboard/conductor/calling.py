"""How a handler is called: with its job, with the details as a type of its own, or with both."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any, get_type_hints

from jobboard.conductor.async_running_job import AsyncRunningJob
from jobboard.conductor.run_context import begin_run
from jobboard.conductor.running_job import RunningJob
from jobboard.conductor.typed_details import check_record, fit_details, is_record, is_value

_ADVICE = (
    "It gets the job, and the details as well if its second parameter, or its only one, is annotated with a dataclass, "
    "a TypedDict or a pydantic model, which must be known at run time and not to type checkers only"
)


class TypedCall:
    """Calls a handler with a job's details as the type that it asks for."""

    def __init__(self, function: Callable[..., Any], kind: type, takes_job: bool) -> None:
        self._function = function
        self.kind = kind
        self.takes_job = takes_job

    def __call__(self, job: Any) -> Any:
        details = fit_details(self.kind, job.details)
        return self._function(job, details) if self.takes_job else self._function(details)


class PlainCall:
    """Calls a handler; a run that sleeps or waits ends so, whatever the handler makes of it."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call

    def __call__(self, job: RunningJob) -> Any:
        begin_run(job)
        try:
            result = self.call(job)
        except BaseException as error:
            if job._steps is None:
                raise
            return job._steps.raised(error)
        return result if job._steps is None else job._steps.returned(result)


class AsyncCall:
    """Calls an ``async`` handler with its job as one that never blocks the event loop; otherwise likewise."""

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call

    async def __call__(self, job: RunningJob) -> Any:
        own = AsyncRunningJob(job)
        begin_run(own)
        try:
            result = await self.call(own)
            await own.finish()
        except BaseException as error:
            if job._steps is None:
                raise
            return job._steps.raised(error)
        return result if job._steps is None else await own.end_with(result)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine; also of a partial, and of an object with ``__call__``."""
    call = getattr(function, "__call__", None)  # noqa: B004, it is inspected, not only looked for
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def call_of(name: str, function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what runs a handler on a job.

    :param name: what the handler is registered for; errors say it.
    :raises TypeError: the handler can't be called so.
    """
    try:
        actual = signature_of(function, follow_wrapped=False)
    except (TypeError, ValueError):
        # Some callables in C have none.
        return _call_to_the_end(function, function)
    call = _typed_call(name, function, actual)
    if call is None:
        try:
            actual.bind(None)
        except TypeError as error:
            raise TypeError(f"{title_of(name, function)} can't be called with one job: {error}. {_ADVICE}") from None
    if call is None or call.takes_job:
        _check_first(name, function)
    return _call_to_the_end(function, call or function)


def _call_to_the_end(function: Callable[..., Any], call: Callable[[Any], Any]) -> PlainCall | AsyncCall:
    return AsyncCall(call) if is_async(function) else PlainCall(call)


def _check_first(name: str, function: Callable[..., Any]) -> None:
    """Refuse a function whose first parameter is annotated with what no job is."""
    if _is_wrapped(function):
        return
    first = next(iter(annotations_of(function)), None)
    if is_value(first):
        asked = first.__qualname__ if inspect.isclass(first) else first
        raise TypeError(f"{title_of(name, function)} can't be called with a job: it asks for {asked}. {_ADVICE}")


def _is_wrapped(function: Callable[..., Any]) -> bool:
    """Whether it is a decorator's wrapper: it gets the job, and may give what it wraps anything."""
    while isinstance(function, partial):
        function = function.func
    return hasattr(function, "__wrapped__")


def signature_of(function: Callable[..., Any], *, follow_wrapped: bool = True) -> inspect.Signature:
    """Return a signature also if an annotation names what only type checkers see: Python 3.14 evaluates it only now.

    :raises TypeError: it can't be called. :raises ValueError: it has none, as some callables in C.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, follow_wrapped=follow_wrapped, annotation_format=Format.FORWARDREF)
    return inspect.signature(function, follow_wrapped=follow_wrapped)


def details_type_of(call: Callable[[Any], Any]) -> type | None:
    """Return the type that a handler asks for, by what :func:`call_of` returned; None if it takes the job alone."""
    inner = call.call if isinstance(call, AsyncCall | PlainCall) else call
    return inner.kind if isinstance(inner, TypedCall) else None


def _typed_call(name: str, function: Callable[..., Any], actual: inspect.Signature) -> TypedCall | None:
    """Return None if the function does not ask for the details."""
    # A decorator's wrapper, which takes anything, has the annotations of what it wraps.
    try:
        shown = signature_of(function)
    except ValueError:
        return None
    positional = [one for one in shown.parameters.values() if one.kind in _POSITIONAL]
    for number, parameter in enumerate(positional[:2], 1):
        kind = _annotation_of(parameter, function)
        if is_record(kind) and _can_take(actual, number):
            try:
                check_record(kind)
            except Exception as error:
                title = title_of(name, function)
                raise TypeError(f"{title} asks for {kind.__qualname__}, which can't be used: {error}") from None
            return TypedCall(function, kind, takes_job=number == 2)
    return None


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _can_take(signature: inspect.Signature, number: int) -> bool:
    try:
        signature.bind(*[None] * number)
    except TypeError:
        return False
    return True


def _annotation_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> Any:
    """Return the annotation, or None if there is none, or if it names what only type checkers see."""
    if parameter.annotation is parameter.empty:
        return None

    def stand_in() -> None: ...

    stand_in.__annotations__ = {"it": parameter.annotation}
    try:
        return get_type_hints(stand_in, globalns=_globals_of(function))["it"]
    except Exception:
        return None


def _globals_of(function: Callable[..., Any]) -> dict[str, Any]:
    while isinstance(function, partial):
        function = function.func
    plain = inspect.unwrap(function)
    if not hasattr(plain, "__globals__"):
        plain = inspect.unwrap(type(plain).__call__)
    found: dict[str, Any] = getattr(plain, "__globals__", {})
    return found


def annotations_of(function: Callable[..., Any]) -> list[Any]:
    """Return the annotations of a function's positional parameters, None for those without one."""
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [_annotation_of(parameter, function) for parameter in parameters if parameter.kind in _POSITIONAL]


def place_of(function: Callable[..., Any]) -> str:
    """Return where a function is defined, for errors."""
    where = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{where}" if where else repr(function)


def title_of(name: str, function: Callable[..., Any]) -> str:
    return f"the handler for {name!r}, {place_of(function)},"


class FreshContexts:
    """Copies the context in which this was made, once for each job."""

    def __init__(self) -> None:
        self._base = copy_context()

    def new(self) -> Context:
        """Return a context for one job."""
        context = self._base.copy()
        # A copied context has the same values, and the one of decimal is an object that handlers change in place.
        if (decimal := sys.modules.get("decimal")) is not None:
            context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
        return context
