"""The commands that run until a signal: conductor, scheduler."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from traceback import extract_tb
from types import ModuleType
from typing import Any, TypeVar

import click

import jobboard
from jobboard.cli.answers import Route
from jobboard.cli.health import health_options, health_routes, metrics_routes
from jobboard.cli.logs import logs_to_stderr
from jobboard.cli.output import TAKEN_AWAY, flush_streams
from jobboard.cli.reloading import Reloader
from jobboard.cli.session import Function, Session, command, pass_session, setting
from jobboard.cli.supervising import EXIT_MAX_JOBS, ChildProcess, Supervisor
from jobboard.cli.values import SPAN
from jobboard.validation import check_delay

T = TypeVar("T")

#: The exit status of a conductor that stopped itself (EX_TEMPFAIL of sysexits): a supervisor starts it again.
EXIT_STUCK = 75
#: Seconds between two looks at how many jobs have been run.
_MAX_JOBS_POLL = 0.5


_AT_LEAST_ONE = click.IntRange(min=1)


def _label_option(default: str) -> Callable[[Function], Function]:
    return setting("--label", "What operators see as its name.", default)


@command(
    "conductor",
    "jobboard --board sqlite:///jobs.db conductor mywork.jobs:handlers",
    "jobboard conductor mywork.jobs:handlers --concurrency 8 --executor process --drain 60",
    "jobboard conductor mywork.jobs:handlers --processes 4 --with-scheduler",
)
@click.argument("handlers", metavar="[MODULE:HANDLERS]", required=False)
@_label_option("conductor")
@setting("--concurrency", "How many handlers run at a time.", 1, type=_AT_LEAST_ONE)
@setting(
    "--processes",
    "How many conductors to run, each in a process that is started again if it ends.",
    1,
    type=_AT_LEAST_ONE,
)
@setting("--max-jobs", "Start a new process after this many jobs, for handlers that leak memory.", type=_AT_LEAST_ONE)
@setting("--executor", "thread, process, asyncio, or another's.", "thread")
@setting("--expiry", "How long a claim lasts unrenewed.", "30s", type=SPAN)
@setting(
    "--drain", "Time to finish in after SIGTERM; Kubernetes kills after 30 s unless told otherwise.", "25s", type=SPAN
)
@setting(
    "--prefetch/--no-prefetch",
    "Claim one batch ahead while all slots run quick jobs; on by default.",
    True,
    show_default=False,
)
@setting(
    "--max-stuck",
    "Slots replaced when their handlers outlast their claims; as many as --concurrency by default.",
    type=click.IntRange(min=0),
)
@setting(
    "--on-stuck",
    "When more are stuck: go on with other names, or exit with status 75.",
    "stay",
    type=click.Choice(["stay", "exit"]),
)
@setting("--with-scheduler", "Run a scheduler in the (first) process.", False, is_flag=True)
@setting("--converter", "The board's converter, for types that msgpack does not carry.", metavar="MODULE:CONVERTER")
@click.option("--until-eof", is_flag=True, help="Stop also when standard input ends.")
@click.option("--reload", is_flag=True, help="Start anew when an imported file of the working directory changes.")
@health_options
@logs_to_stderr
@pass_session
def conductor(
    session: Session,
    /,
    handlers: str | None,
    label: str,
    drain: float,
    processes: int,
    max_jobs: int | None,
    with_scheduler: bool,
    converter: str | None,
    until_eof: bool,
    reload: bool,
    health_host: str,
    health_port: int | None,
    **options: Any,
) -> None:
    """Claim jobs and run their handlers until SIGTERM, SIGINT or SIGHUP; a second signal ends it at once.

    SIGUSR1 prints what each slot does, and where every thread is.
    """
    check_delay(drain, "--drain")
    child = _supervised(processes, max_jobs, {"--until-eof": until_eof, "--reload": reload})
    number = 0 if child is None else child.number
    reloader = Reloader() if reload else None
    with reloader.waiting_for_repair() if reloader else nullcontext():
        found = load_handlers(handlers) if handlers else _default_handlers(session)
        made = None if converter is None else _load(converter, jobboard.Converter, "mywork.jobs:converter")
    board = session.board(create=True, converter=made)
    clock = jobboard.Scheduler(board, label) if with_scheduler and number == 0 else None
    worker = jobboard.Conductor(label, board, found, **options)
    started = threading.Event()

    def start() -> None:
        routes = health_routes(
            board, lambda: not started.is_set() or worker.healthy, lambda: worker.unsent, started.is_set
        )
        _serve_health(health_host, health_port, routes, number)
        worker.start()
        started.set()
        if clock is not None:
            clock.start()

    def drain_and_stop() -> None:
        if clock is not None:
            clock.stop()
        worker.stop(timeout=drain)

    def stop() -> None:
        if reloader is not None:
            reloader.stop()
        drain_and_stop()

    with _until_a_signal(start, stop, lambda: click.echo(worker.describe(), err=True), child):
        if until_eof:
            threading.Thread(target=_stop_at_eof, args=(stop,), name="jobboard-eof", daemon=True).start()
        if reloader is not None:
            reloader.watch(drain_and_stop)
        _say_at_once(session, f"{worker.who} works on board {session.name!r}")
        has_run_enough = _stop_after(worker, max_jobs)
    if has_run_enough or not worker.healthy:
        if clock is not None:
            clock.stop()
        raise SystemExit(EXIT_MAX_JOBS if has_run_enough else EXIT_STUCK)
    _check_closed(worker)


def _check_closed(worker: jobboard.Conductor) -> None:
    if worker.unclosed is not None:
        raise click.ClickException(f"what a lifespan has made could not be closed: {worker.unclosed}")


def _say_at_once(session: Session, text: str) -> None:
    """Say that something works; its first handler may run already."""
    with suppress(*TAKEN_AWAY, OSError):
        session.output.say(text)
    flush_streams()


def _stop_after(worker: jobboard.Conductor, max_jobs: int | None) -> bool:
    """Return when it has stopped: whether it was stopped here, after this many jobs, with no limit to its drain."""
    if max_jobs is None:
        worker.wait()
        return False
    while not worker.wait(_MAX_JOBS_POLL):
        if worker.handled >= max_jobs:
            worker.stop()
            return True
    return False


def _serve_health(host: str, port: int | None, routes: dict[str, Route], number: int = 0) -> None:
    """Serve the health of this process, if a port is given; of several processes each takes the next one."""
    if port is not None:
        from jobboard.cli.http_server import HttpServer

        server = HttpServer(host, port and port + number, routes | metrics_routes())
        click.echo(f"health: http://{host}:{server.port}/livez /readyz /metrics", err=True)


@contextmanager
def _until_a_signal(
    start: Callable[[], object],
    stop: Callable[[], object],
    describe: Callable[[], object] | None = None,
    child: ChildProcess | None = None,
) -> Iterator[None]:
    """Start, and stop at a signal, also at one that comes before there is anything to stop.

    :param child: hears of signals from the process above.
    """
    from jobboard.conductor import stop_on_signals

    asked = threading.Event()

    def note_and_stop() -> None:
        asked.set()
        stop()

    listen = stop_on_signals if child is None else child.stop_on_request
    with listen(note_and_stop, describe):
        start()
        if asked.is_set():
            stop()
        yield


def _supervised(processes: int, max_jobs: int | None, single: Mapping[str, bool]) -> ChildProcess | None:
    """Return in each of the processes; in the one above them, exit when they have ended.

    :param single: the options that are for one process only, and which of them are given.
    """
    if processes == 1 and max_jobs is None:
        return None
    for option, is_given in single.items():
        if is_given:
            raise click.UsageError(f"{option} is for one process, and not for --processes or --max-jobs")
    return Supervisor(processes).run()


def _stop_at_eof(stop: Callable[[], None]) -> None:
    # Not by sys.stdin: the interpreter's exit would fail on its lock, which this thread would hold.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    stop()


def _default_handlers(session: Session) -> jobboard.Handlers:
    if session.make_handlers is not None:
        return session.make_handlers()
    handlers = session.settings().handlers
    if handlers is None:
        raise click.UsageError("name the handlers: MODULE:HANDLERS, or handlers of the board in jobboard.toml")
    return load_handlers(handlers)


def load_handlers(text: str) -> jobboard.Handlers:
    """Return what ``MODULE:HANDLERS`` names."""
    return _load(text, jobboard.Handlers, "mywork.jobs:handlers")


def _load(text: str, kind: type[T], example: str) -> T:
    """Return what ``MODULE:NAME`` names, an instance of ``kind``."""
    module_name, colon, attribute = text.partition(":")
    if not colon or not module_name or not attribute:
        raise click.UsageError(f"{text!r} is not MODULE:{kind.__name__.upper()}, such as {example}")
    module = _import(module_name)
    found = getattr(module, attribute, None)
    if not isinstance(found, kind):
        there = [name for name, value in vars(module).items() if isinstance(value, kind)]
        hint = f"; it has {', '.join(there)}" if there else ""
        raise click.UsageError(f"{module_name} has no {kind.__name__} named {attribute!r}{hint}")
    return found


def _import(module_name: str) -> ModuleType:
    """Import a module; the present directory comes last, and not at all in Python's safe mode."""
    if not sys.flags.safe_path and os.getcwd() not in sys.path:
        # After installed packages: a file in that directory must not replace one of theirs.
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            hint = f"; a file is named without .py: {module_name[:-3]}" if module_name.endswith(".py") else ""
            raise click.UsageError(f"there is no module {error.name!r} to import{hint}") from None
        raise _import_failure(module_name, str(error), error) from error
    except Exception as error:
        raise _import_failure(module_name, repr(error), error) from error


def _import_failure(module_name: str, message: str, error: Exception) -> click.UsageError:
    """Say at which line of which file the import ended, and how to see the whole traceback."""
    lines = [(frame.filename, frame.lineno) for frame in extract_tb(error.__traceback__) if frame.name == "<module>"]
    if isinstance(error, SyntaxError) and error.filename:
        message, lines = f"{type(error).__name__}: {error.msg}", [(error.filename, error.lineno)]
    where = "{}, line {}: ".format(*lines[-1]) if lines else ""
    hint = f"python -c 'import {module_name}' shows the whole traceback"
    return click.UsageError(f"{module_name} can't be imported: {where}{message}; {hint}")


@command("scheduler", "jobboard --board sqlite:///jobs.db scheduler", "jobboard scheduler --label clock-1")
@_label_option("scheduler")
@health_options
@logs_to_stderr
@pass_session
def scheduler(session: Session, label: str, health_host: str, health_port: int | None) -> None:
    """Post what is due until SIGTERM or SIGINT; any number may run at the same time."""
    board = session.board(create=True)
    clock = jobboard.Scheduler(board, label)

    def start() -> None:
        _serve_health(health_host, health_port, health_routes(board, lambda: clock.healthy))
        clock.start()

    with _until_a_signal(start, clock.stop):
        _say_at_once(session, f"{clock.who} posts what is due on board {session.name!r}")
        clock.wait()


COMMANDS = (conductor, scheduler)
