"""The root of ``manage.py jobboard``: all commands, on the board of the settings."""

from __future__ import annotations

import click
from django.core.exceptions import ImproperlyConfigured

from jobboard.cli import app
from jobboard.cli.output import Output
from jobboard.contrib.django.boards import backend_of
from jobboard.contrib.django.task_commands import COMMANDS, TaskSession


@click.group(
    "manage.py jobboard",
    commands={**app.cli.commands, **COMMANDS},
    context_settings=app.cli.context_settings,
)
@click.option(
    "--backend",
    "alias",
    metavar="ALIAS",
    default="default",
    show_default=True,
    help="Which backend of TASKS; its board, and its tasks.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of a table.")
@click.pass_context
def root(context: click.Context, alias: str, as_json: bool) -> None:
    """Look at the board of TASKS, operate it, and work on it; `conductor` without an argument runs the tasks."""
    output: Output = context.obj
    output.json = as_json
    try:
        context.obj = TaskSession(backend_of(alias), output)
    except ImproperlyConfigured as error:
        raise click.UsageError(str(error)) from error


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    return app.run(arguments, root)
