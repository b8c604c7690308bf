"""The tasks of tests."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import django
from django.db import connections, transaction

from django_site.models import Order
from jobboard import Broken, Posting, RunAgain, Then

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task

calls: list[Any] = []
#: What a task waits for.
go_on = threading.Event()


@task
def add(left: int, right: int = 0) -> int:
    calls.append(left)
    return left + right


@task
async def add_async(left: int, right: int = 0) -> int:
    return left + right


def _in_session(function: Callable[[str, int], str]) -> Callable[[int], str]:
    @functools.wraps(function)
    def call(number: int) -> str:
        return function("session", number)

    return call


@task
@_in_session
def with_session(session: str, number: int) -> str:
    return f"{session} {number}"


@task(priority=10, queue_name="mail")
def mail(to: str) -> str:
    calls.append(to)
    return to


@task(takes_context=True)
def who_am_i(context: Any, *_: Any) -> list[Any]:
    return [context.task_result.id, context.attempt, str(context.task_result.status)]


@task
def fail(text: str = "no") -> None:
    raise ValueError(text)


@task
def fail_with_value() -> None:
    raise ValueError(ValueError("inner"))


@task
def leave() -> None:
    raise SystemExit("left")


@task
def give_up() -> None:
    raise Broken("for good")


@task
def odd_result() -> Any:
    calls.append("odd")
    return object()


@task
def no_number() -> dict[str, Any]:
    calls.append("none")
    return {"mean": [1.0, float("nan")]}


@task
def huge_number() -> int:
    calls.append("huge")
    return 2**80


@task(takes_context=True)
def fail_once(context: Any) -> int:
    if context.attempt == 1:
        raise LookupError("not yet")
    return int(context.attempt)


@task
def again_once() -> str:
    calls.append("again")
    if len(calls) == 1:
        raise RunAgain(after=0)
    return "done"


@task
def returns_again() -> RunAgain | str:
    calls.append("again")
    return RunAgain(after=0) if len(calls) == 1 else "done"


@task
def returns_then(number: int) -> Then:
    return Then([Posting("pack", {"order": number}), Posting("bill", {"order": number})], number)


@task
def add_order(number: int) -> None:
    with transaction.atomic():
        Order.objects.create(number=number)


@task
def connection_id() -> int:
    """Open a connection, and leave it open."""
    connection = connections["default"]
    connection.ensure_connection()
    calls.append(connection)
    return id(connection.connection)


@task
def wait_to_go_on() -> bool:
    calls.append("waits")
    return go_on.wait(30)


def not_a_task() -> None:
    calls.append("nobody may call this")
