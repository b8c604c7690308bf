"""What all commands share: the board that was named, and the options that stand before and after a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from jobboard.board import JobBoard
from jobboard.cli.output import Output
from jobboard.fetching import fetch

Command = TypeVar("Command", bound=Callable[..., Any])


class Session:
    """One run of the command line."""

    def __init__(self, uri: str | None, name: str, output: Output) -> None:
        self.uri = uri
        self.name = name
        self.output = output

    def board(self, **options: Any) -> JobBoard:
        """Open the board that was named; it is closed when the command ends."""
        if self.uri is None:
            raise click.UsageError("name the board: --board URI, or JOBBOARD_URI in the environment")
        board = fetch(self.name, self.uri, **options)
        return click.get_current_context().with_resource(board)


def _turn_on_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        context.find_object(Session).output.json = True  # type: ignore[union-attr]


#: Every command takes --json, so that it may stand at either end of the line.
json_option = click.option(
    "--json", is_flag=True, expose_value=False, callback=_turn_on_json, help="Write JSON instead of a table."
)


def command(group: click.Group, name: str, *, examples: str) -> Callable[[Command], click.Command]:
    """Add a command to the group, with --json and examples in its help."""
    lines = "\n".join(f"  {line}" for line in examples.strip().splitlines())

    def add(function: Command) -> click.Command:
        made = group.command(name, epilog=f"\b\nExamples:\n{lines}")(json_option(function))
        return made

    return add


pass_session = click.make_pass_decorator(Session)
