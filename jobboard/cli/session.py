"""What all commands share: the board, and the global options, which may stand before or after the command."""

from __future__ import annotations

import functools
import getpass
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from jobboard.cli.output import Output
from jobboard.cli.values import uri_of
from jobboard.errors import JobBoardError, NotFound
from jobboard.participants import unhandled
from jobboard.states import JobPriority

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.conductor import Handlers
    from jobboard.configuration import BoardSettings


#: A command's function, also with some of its options.
Function = Callable[..., Any]


class Session:
    """One run of the command line.

    :param uri: where the board is, or all that :func:`jobboard.fetch` takes beside the name.
    :param config: the file of named boards; None looks for it.
    """

    def __init__(
        self, uri: str | Mapping[str, Any] | None, name: str | None, output: Output, config: str | None = None
    ) -> None:
        self.locate(uri)
        #: As it was given; None takes that of the configuration, or the default.
        self.given_name = name
        self.config = config
        self.output = output
        #: What is typed before a command, for those that are printed to be copied.
        self.program = "jobboard"
        #: Makes the handlers of a conductor that names none; None: those of the configuration.
        self.make_handlers: Callable[[], Handlers] | None = None

    def locate(self, uri: str | Mapping[str, Any] | None) -> None:
        """Say where the board is; a file that has the URI is read once, when the URI is first asked for."""
        #: Whether it is a URI of the environment: a configuration that is given as an argument wins over it.
        self.gives_way = False
        self._read_uri = functools.cache(lambda: uri_of("--board", uri) if isinstance(uri, str) else uri)

    @property
    def uri(self) -> str | Mapping[str, Any] | None:
        """Where the board is.

        :raises click.UsageError: it names a variable that there is not, or a file that has no URI.
        :raises OSError: that file can't be read.
        """
        return None if self.gives_way and self.config is not None else self._read_uri()

    @property
    def name(self) -> str:
        return self.settings().name

    def settings(self) -> BoardSettings:
        """Return where the board is, and what the configuration says of it.

        :raises click.UsageError: nothing says where it is.
        :raises NotFound: the configuration has no such board.
        """
        from jobboard.opening import locate

        found = locate(self.uri, self.given_name, self.config)
        if found is None:
            raise click.UsageError(
                "name the board: --board URI, JOBBOARD_URI in the environment, or boards in a file jobboard.toml"
            )
        return found

    def config_file(self) -> str:
        """Return the path of the configuration.

        :raises click.UsageError: there is none.
        """
        from jobboard.configuration import FILE, configuration

        found = configuration(self.config)
        if found is None:
            raise click.UsageError(f"name a FILE: there is no {FILE} in the working folder or above it")
        return str(found.path)

    def board(self, *, create: bool = False, **options: Any) -> JobBoard:
        """Open the board of ``--board`` and ``--name``; it is closed when the command ends.

        :param create: whether the command creates a board that does not exist; otherwise it is refused, since its name
            is probably mistyped.
        :param options: further ones of :func:`jobboard.fetch`.
        """
        board = self.closed_board(**options, **({} if create else {"create": False}))
        return click.get_current_context().with_resource(board)

    def board_to_change(self) -> JobBoard:
        """Open the board for a command that puts something on it; one that does not exist is created.

        That is told on standard error, with the boards that there are: its name is perhaps mistyped.
        """
        board = self.closed_board(create=False)
        context = click.get_current_context()
        try:
            return context.with_resource(board)
        except NotFound as error:
            created = context.with_resource(self.closed_board())
            self.output.warn(f"{error}; {self.name!r} is created now")
            return created

    def board_to_preview(self) -> JobBoard:
        """Open the board for a ``--dry-run`` of a command that creates it.

        An empty one in memory stands for a board that does not exist, which is told on standard error.
        """
        board = self.closed_board(create=False)
        context = click.get_current_context()
        try:
            return context.with_resource(board)
        except NotFound as error:
            from jobboard.fetching import fetch

            self.output.warn(f"{error}; it would be created")
            return context.with_resource(fetch(self.name, "memory"))

    def warn_of_unhandled(self, board: JobBoard, job: str) -> None:
        """Say on standard error if conductors are alive and none has a handler for jobs of this name; one request."""
        try:
            lacking = unhandled(board.entities(), [job])
        except JobBoardError:
            # What the command has put on the board is there; a script that sees a failure would do it again.
            return
        if lacking:
            self.output.warn(f"no conductor that is alive has a handler for {job!r}")

    def closed_board(self, **options: Any) -> JobBoard:
        """Return the board of ``--board`` and ``--name``, not connected."""
        board = self.settings().fetch(**options)
        if not board.capabilities.processes:
            raise click.UsageError(
                f"a {board.store} board lives within one process, and would end with this command; "
                "use one that processes share, such as sqlite:///jobs.db"
            )
        return board


def _session_of(context: click.Context) -> Session:
    session = context.find_object(Session)
    assert session is not None
    return session


def _take_board(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None and not context.resilient_parsing:
        _session_of(context).locate(value)


def _take_name(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None and not context.resilient_parsing:
        _session_of(context).given_name = value


def _take_config(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None and not context.resilient_parsing:
        _session_of(context).config = value


def _take_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        _session_of(context).output.json = True


def options(*each: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Return a decorator that adds several options, in this order."""
    return lambda function: functools.reduce(lambda made, option: option(made), reversed(each), function)


def setting(name: str, help: str, default: Any = None, **more: Any) -> Callable[[Function], Function]:
    """Return an option that the environment can give, too: ``--max-jobs`` is ``JOBBOARD_MAX_JOBS`` there."""
    variable = f"JOBBOARD_{name.partition('/')[0].removeprefix('--').upper().replace('-', '_')}"
    return click.option(name, default=default, envvar=variable, help=help, **{"show_default": True} | more)


#: Every command takes the global options, too.
_global_options = options(
    click.option(
        "--board",
        "board_uri",
        metavar="URI|NAME|@FILE",
        expose_value=False,
        callback=_take_board,
        help="Where the board is.",
    ),
    click.option("--name", "board_name", expose_value=False, callback=_take_name, help="The board's name."),
    click.option(
        "--config", "config_file", metavar="FILE", expose_value=False, callback=_take_config, help="Named boards."
    ),
    click.option("--json", "as_json", is_flag=True, expose_value=False, callback=_take_json, help="Write JSON."),
)


def command(name: str, *examples: str) -> Callable[[Function], click.Command]:
    """Make a function a command, with the global options, and with examples in its help."""
    lines = "".join(f"\n  {example}" for example in examples)
    make = click.command(name, epilog=f"\b\nExamples:{lines}")
    return lambda function: make(_global_options(function))


def group(name: str, commands: Sequence[click.Command], *examples: str) -> Callable[[Function], click.Group]:
    """Make a function a group, with the global options, which runs it if none of the group's commands is given."""
    lines = "".join(f"\n  {example}" for example in examples)

    def decorate(function: Function) -> click.Group:
        def alone(*given: Any, **options: Any) -> Any:
            return function(*given, **options) if click.get_current_context().invoked_subcommand is None else None

        called = functools.update_wrapper(alone, function)
        plain = command(name)(called)
        return click.Group(
            name, commands=commands, invoke_without_command=True, callback=plain.callback, params=plain.params,
            help=plain.help, epilog=f"\b\nExamples:{lines}",
        )  # fmt: skip

    return decorate


def is_given(parameter: str) -> bool:
    """Whether the present command line has this option, or the environment instead."""
    return click.get_current_context().get_parameter_source(parameter) is not ParameterSource.DEFAULT


def warn_of_rest(session: Session, rest: Iterator[object], listed: int) -> None:
    """Say that there are more than were listed, unless ``--limit`` asked for so many."""
    if not is_given("limit") and next(rest, None) is not None:
        session.output.warn(f"there are more than these {listed}; --limit 0 lists all")


def confirm(question: str, again: str | None = None) -> None:
    """Ask on the terminal, and end the command at a no; without a terminal, name the option that answers instead.

    :param again: the command that does it without a question, to be told where nothing was changed.
    """
    unchanged = f"nothing was changed; do it with: {again}" if again else "nothing was changed"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes, since there is no terminal to ask on; {unchanged}")
    if not click.confirm(question, err=True):
        raise click.ClickException(unchanged)


def me() -> str:
    """Return the name that the history gives an operator."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "operator"
    return f"{user}@{socket.gethostname()}"


pass_session = click.make_pass_decorator(Session)

by_option = click.option(
    "--by", metavar="NAME", default=me, show_default="your login's", help="Who does it, for the history."
)

#: Of the commands by which operators change something.
by_and_note = options(
    by_option,
    click.option("--note", metavar="TEXT", help="Why, for the history."),
)

#: Of commands that ask first.
yes_option = click.option("--yes", is_flag=True, help="Don't ask.")

#: Of several commands.
if_exists_option = click.option(
    "--if-exists", type=click.Choice(["raise", "keep", "replace"]), default="raise", show_default=True
)
PRIORITY = click.Choice([priority.name.lower() for priority in reversed(JobPriority)], case_sensitive=False)
