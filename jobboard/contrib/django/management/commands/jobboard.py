"""``manage.py jobboard``: the whole command line, on the board of the settings."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections


class Command(BaseCommand):
    """Hands its arguments to the command line of jobboard, which knows the board and the handlers already."""

    help = "Operate the board of TASKS, and work on it: see `manage.py jobboard -- --help`."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs=argparse.REMAINDER, help="As of the command jobboard.")

    def run_from_argv(self, argv: list[str]) -> None:
        # Not by argparse, which would take what is meant for the command line: --help, --version, options before a
        # command. Django has applied its own two by now.
        own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        own.add_argument("--settings")
        own.add_argument("--pythonpath")
        try:
            sys.exit(_run(own.parse_known_args(argv[2:])[1]))
        except CommandError as error:
            self.stderr.write(f"jobboard: {error}")
            sys.exit(error.returncode)
        finally:
            connections.close_all()

    def handle(self, *_: Any, **options: Any) -> None:
        status = _run(options["arguments"])
        if status:
            raise CommandError("jobboard has said why", returncode=status)


def _run(arguments: list[str]) -> int:
    try:
        from jobboard.contrib.django.command_line import run
    except ModuleNotFoundError as error:
        raise CommandError(f"the command line needs {error.name}: pip install 'jobboard[cli]'", returncode=2) from error
    return run(arguments)
