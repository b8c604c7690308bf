"""The commands that know tasks and queues: conductor, pause and resume, schedule add and apply."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import click
from django.core.exceptions import ImproperlyConfigured

from jobboard.board import JobBoard
from jobboard.cli.conducting import conductor as plain_conductor
from jobboard.cli.conducting import load_handlers
from jobboard.cli.output import Output
from jobboard.cli.schedule_changing import add as plain_add
from jobboard.cli.scheduling import COMMANDS as SCHEDULING
from jobboard.cli.session import Session, by_and_note, command
from jobboard.cli.values import json_of
from jobboard.conductor import Handlers
from jobboard.contrib.django.backend import JobBoardBackend
from jobboard.contrib.django.compat import InvalidTask
from jobboard.contrib.django.discovery import checked_task
from jobboard.contrib.django.fresh_connections import with_fresh_connections
from jobboard.contrib.django.names import job_names
from jobboard.contrib.django.schedules import (
    applying_settings,
    schedule_options,
    scheduled_call,
    schedules_of_settings,
)
from jobboard.contrib.django.worker import task_handlers
from jobboard.operate.schedules import change_line, changes_view
from jobboard.operate.views import paused_texts, paused_view
from jobboard.schedules.operators import Operator


class TaskSession(Session):
    """A run of ``manage.py jobboard``: on the board of a backend, whose tasks a conductor runs."""

    def __init__(self, backend: JobBoardBackend, output: Output) -> None:
        super().__init__(backend.site.conf, backend.site.name, output)
        self.backend = backend
        which = "" if backend.alias == "default" else f" --backend {shlex.quote(backend.alias)}"
        self.program = f"manage.py jobboard{which}"
        self.make_handlers = self.handlers

    def handlers(self, queues: Sequence[str] | None = None, only: Sequence[str] | None = None) -> Handlers:
        """Return the handlers of tasks; as of :func:`task_handlers`, but errors are those of the command line."""
        with usage_errors():
            return task_handlers(self.backend.alias, queues, only)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Tell what the settings or the arguments lack as wrong usage: status 2."""
    try:
        yield
    except (ImproperlyConfigured, InvalidTask, TypeError) as error:
        raise click.UsageError(str(error)) from error


pass_tasks = click.make_pass_decorator(TaskSession)


def extended(plain: click.Command, *params: click.Parameter, examples: Sequence[str]) -> Callable[..., click.Command]:
    """Return a decorator that makes a command of a plain one: with further or other parameters, and a function."""
    lines = "".join(f"\n  manage.py jobboard {example}" for example in examples)

    def decorate(function: Callable[..., Any]) -> click.Command:
        return click.Command(
            plain.name,
            callback=function,
            params=list({param.name: param for param in [*plain.params, *params]}.values()),
            help=f"{plain.help}\n\n{function.__doc__}",
            epilog=f"\b\nExamples:{lines}",
        )

    return decorate


def _parts(_context: click.Context, _parameter: click.Parameter, texts: Sequence[str]) -> list[str] | None:
    """Return the parts of what was given with commas, or several times; None if nothing was."""
    return [part.strip() for text in texts for part in text.split(",")] or None


def _list_option(name: str, metavar: str, help_text: str) -> click.Option:
    return click.Option([name], multiple=True, metavar=metavar, callback=_parts, help=help_text)


@extended(
    plain_conductor,
    _list_option("--queues", "QUEUE,...", "Only tasks in these queues."),
    _list_option("--only", "TASK,...", "Only these tasks, such as shop.tasks.sms."),
    examples=(
        "conductor --concurrency 8",
        "conductor --queues cpu,mail --with-scheduler",
        "conductor --only shop.tasks.sms",
    ),
)
@pass_tasks
def conductor(
    session: TaskSession, /, queues: Sequence[str] | None, only: Sequence[str] | None, **options: Any
) -> None:
    """Without MODULE:HANDLERS it runs the tasks of the backend."""
    given = options.pop("handlers")
    if given is not None and (queues or only):
        raise click.UsageError("--queues and --only are for tasks, and not for MODULE:HANDLERS")
    session.make_handlers = partial(session.handlers, queues, only) if given is None else partial(_load_fresh, given)
    options["handlers"] = None
    _call(plain_conductor, options)


def _load_fresh(text: str) -> Handlers:
    return with_fresh_connections(load_handlers(text))


def _call(plain: click.Command, arguments: dict[str, Any]) -> None:
    assert plain.callback is not None
    click.get_current_context().invoke(plain.callback, **arguments)


_queue = click.option("--queue", metavar="QUEUE", help="All tasks that there are now, in this queue.")
_lane = click.option("--lane", help="A lane, or PREFIX:* for each lane with that prefix.")


@command("pause", "manage.py jobboard pause shop.tasks.sms", "manage.py jobboard pause --queue mail")
@click.argument("name", required=False)
@_queue
@_lane
@by_and_note
@pass_tasks
def pause(
    session: TaskSession, name: str | None, queue: str | None, lane: str | None, by: str, note: str | None
) -> None:
    """Let no more jobs of this task, of this name or of a lane be claimed; without any, no jobs at all."""
    board = session.board(create=True)
    _change_pauses(session, board, partial(JobBoard.pause, lane=lane, by=by, reason=note), name, queue, lane)
    if name is None or name in session.backend.tasks.tasks():
        return
    if next(board.iterjobs(names=[name]), None) is None:
        session.output.warn(f"there is no task {name!r}, and no job on the board is named so now")


@command("resume", "manage.py jobboard resume shop.tasks.sms", "manage.py jobboard resume --queue mail")
@click.argument("name", required=False)
@_queue
@_lane
@pass_tasks
def resume(session: TaskSession, name: str | None, queue: str | None, lane: str | None) -> None:
    """Undo a pause of this task, name, queue or lane; without one, that of the whole board."""
    _change_pauses(session, session.board(), partial(JobBoard.resume, lane=lane), name, queue, lane)


def _change_pauses(
    session: TaskSession,
    board: JobBoard,
    change: Callable[[JobBoard, str | None], object],
    name: str | None,
    queue: str | None,
    lane: str | None,
) -> None:
    if sum(each is not None for each in (name, queue, lane)) > 1:
        raise click.UsageError("name a task, or say --queue or --lane, one of them")
    for each in [None] if name is None and queue is None else _job_names(session, name, queue):
        change(board, each)
    paused = paused_view(board.pauses(), board.limits)
    texts = paused_texts(paused)
    session.output.report(paused, f"paused: {', '.join(texts)}" if texts else "nothing is paused")


def _job_names(session: TaskSession, name: str | None, queue: str | None) -> list[str]:
    """Return the names of the jobs of a task in all queues, or of all tasks in one queue."""
    if queue is not None:
        return sorted(session.handlers([queue]).names)
    assert name is not None
    with usage_errors():
        task = session.backend.tasks.tasks().get(name)
    queues = session.backend.queues
    return [name] if task is None else list(job_names(task, queues, queues))


@extended(
    plain_add,
    click.Argument(["job"], required=False),
    click.Option(["--task"], metavar="TASK", help="The task, such as shop.tasks.close_day; in place of JOB."),
    click.Option(["--args"], metavar="JSON", help="Its arguments: a list, or an object by name; @FILE reads a file."),
    examples=(
        "schedule add nightly --task shop.tasks.close_day --cron '0 3 * * *' --tz Europe/Berlin",
        "schedule add poll --task shop.tasks.fetch --every 30s --args '{\"page\": 1}'",
    ),
)
@pass_tasks
def add(session: TaskSession, /, job: str | None, task: str | None, args: str | None, **options: Any) -> None:
    """With --task it posts calls of a task."""
    if (job is None) is (task is None):
        raise click.UsageError("name the task: --task TASK, or a JOB without one")
    with usage_errors():
        tasks = session.backend.tasks.tasks()
        if task is None:
            if args is not None:
                raise click.UsageError("--args belongs to --task; a JOB has --details")
            if job in tasks:
                raise click.UsageError(f"{job} is a task: say --task {job}")
        else:
            if options["details"] is not None:
                raise click.UsageError("--details belongs to JOB; a task has --args")
            found = checked_task(task, tasks).using(backend=session.backend.alias)
            call = scheduled_call(found, None if args is None else json_of("--args", args))
            job, options["details"] = session.backend.job_name(found), json.dumps(call.details)
            defaults = schedule_options(found, call)
            options["priority"] = options["priority"] or defaults["priority"].name
            for name in ("max_attempts", "lane"):
                options[name] = options[name] or defaults[name]
    _call(plain_add, {**options, "job": job})


@command("apply", "manage.py jobboard schedules apply --dry-run", "manage.py jobboard schedules apply --json")
@click.option("--dry-run", is_flag=True, help="Only say what would be added, changed and removed.")
@by_and_note
@pass_tasks
def apply(session: TaskSession, dry_run: bool, by: str, note: str | None) -> None:
    """Bring the board's schedules in line with JOBBOARD_SCHEDULES of the settings.

    What it once added, and the settings have no more, is removed; other schedules stay. Again it changes nothing.
    """
    with usage_errors():
        wanted = schedules_of_settings(session.backend.alias).values()
    board = session.board_to_preview() if dry_run else session.board(create=True)
    applying = applying_settings(board, session.backend.alias)
    changes = applying.changes_to(wanted) if dry_run else applying.apply(wanted, Operator.named(by, note))
    view = changes_view(changes, wanted, dry_run)
    lines = [*map(change_line, changes), f"unchanged: {len(view['unchanged'])}"]
    session.output.report(view, "\n".join(lines))


_GROUP = SCHEDULING[0]
_IN_GROUP = {**_GROUP.commands, "add": add, "apply": apply}

#: By name; ``schedules apply`` is said as ``migrate`` is, and ``schedule`` is what the rest is called.
COMMANDS: dict[str, click.Command] = {
    "conductor": conductor,
    "pause": pause,
    "resume": resume,
    "schedule": click.Group("schedule", commands=_IN_GROUP, help=_GROUP.help, epilog=_GROUP.epilog),
    "schedules": click.Group("schedules", commands=_IN_GROUP, help=_GROUP.help, hidden=True),
}
