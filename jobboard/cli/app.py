"""The root of the command line: the global options, and the exit status of each error."""

from __future__ import annotations

import os
import sys
import traceback

import click
from click.core import ParameterSource
from click.shell_completion import shell_complete

from jobboard.cli.commands import Commands
from jobboard.cli.output import Output, discard_stdout, flush_streams
from jobboard.cli.session import Session
from jobboard.errors import BoardUnavailable, JobBoardError, MissingExtra, UnknownBackend

OK, REFUSED, USAGE, UNAVAILABLE, BUG, INTERRUPTED = 0, 1, 2, 3, 70, 130

#: Set by the shell that wants to know how a command line may go on.
_COMPLETE = "_JOBBOARD_COMPLETE"

_EPILOG = """\b
Environment:
  JOBBOARD_URI    the board's URI, such as sqlite:///jobs.db, or @FILE; for a URI with a password,
                  since everybody on the host can read arguments
  JOBBOARD_NAME   the board's name, its namespace in the store (default: jobs)
  JOBBOARD_CONFIG the file of named boards (default: the nearest jobboard.toml)
  NO_COLOR        no colours
  JOBBOARD_DEBUG  the whole traceback of what is a bug
\b
Completion in a shell (bash; zsh and fish likewise):
  eval "$(_JOBBOARD_COMPLETE=bash_source jobboard)"
\b
Exit status:
  0 done, 1 refused or failed, 2 wrong usage, 3 the store can't be used,
  70 a bug in jobboard, 75 slots were stuck (conductor --on-stuck exit),
  124 the time is over (wait --timeout), 130 interrupted
"""


@click.group(
    "jobboard",
    cls=Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--board",
    "uri",
    envvar="JOBBOARD_URI",
    metavar="URI|NAME|@FILE",
    help="Where the board is: sqlite:///jobs.db, ..., its name in jobboard.toml, or a file that has the URI.",
)
@click.option("--name", envvar="JOBBOARD_NAME", show_default="jobs, or as jobboard.toml says", help="The board's name.")
@click.option("--config", metavar="FILE", help="Named boards; by default the nearest jobboard.toml, upwards from here.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of a table.")
@click.version_option(package_name="jobboard")
@click.pass_context
def cli(context: click.Context, uri: str | None, name: str | None, config: str | None, as_json: bool) -> None:
    """Post jobs on a board, look at them, operate it, and work on it."""
    output: Output = context.obj
    output.json = as_json
    context.obj = session = Session(uri, name, output, config)
    is_uri = uri is not None and (":" in uri or uri.startswith("@"))
    session.gives_way = is_uri and context.get_parameter_source("uri") is ParameterSource.ENVIRONMENT


def run(arguments: list[str] | None = None, root: click.Command = cli) -> int:
    """Run one command line and return its exit status; any error is one line on standard error."""
    if instruction := os.environ.get(_COMPLETE):
        return shell_complete(root, {}, root.name or "", _COMPLETE, instruction)
    output = Output()
    status = _run(root, sys.argv[1:] if arguments is None else list(arguments), output)
    try:
        flush_streams()
    except OSError as error:
        discard_stdout()
        if not isinstance(error, BrokenPipeError):
            output.error(f"standard output: {error.strerror}")
        return status or REFUSED
    return status


def _run(root: click.Command, arguments: list[str], output: Output) -> int:
    try:
        with root.make_context(root.name, arguments, obj=output) as context:
            root.invoke(context)
        return OK
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        return REFUSED
    except Exception as error:
        status, line = _outcome_of(error)
        output.error(line)
        return status


def _outcome_of(error: Exception) -> tuple[int, str]:
    """Return the exit status and the line of an error."""
    match error:
        case click.UsageError():
            hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            return USAGE, error.format_message() + hint
        case click.ClickException():
            return REFUSED, error.format_message()
        case BoardUnavailable():
            return UNAVAILABLE, str(error)
        case MissingExtra() | UnknownBackend() | ValueError() | TypeError():
            # The last two are of values that no board takes, and are raised before the store is asked.
            return USAGE, str(error)
        case OSError():
            # A name is that of a file that the command line names.
            where = f"{error.filename}: " if error.filename else ""
            return USAGE if where else REFUSED, f"{where}{error.strerror or error}"
        case JobBoardError():
            return REFUSED, str(error)
    if os.environ.get("JOBBOARD_DEBUG"):
        traceback.print_exception(error)
    return BUG, f"this is a bug: {error!r}; JOBBOARD_DEBUG=1 shows where"
