"""What the commands named apply share: they show what differs, ask first, and say what was changed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import click

from jobboard.cli.output import count
from jobboard.cli.session import Session, confirm, options, yes_option

apply_options = options(click.option("--dry-run", is_flag=True, help="Only show the difference."), yes_option)


class Applying:
    """One run of such a command.

    :param thing: what is changed, such as ``"limit"``.
    :param again: the words of the command that changes it without a question.
    """

    def __init__(self, session: Session, thing: str, again: Sequence[str], *, dry_run: bool, yes: bool) -> None:
        self._session, self._thing = session, thing
        self._again = f"{session.program} {shlex.join(again)}"
        self._dry_run, self._yes = dry_run, yes

    def may_change(self, lines: Sequence[str]) -> bool:
        """Show what differs, a line each, and ask unless that was answered; whether to change it."""
        for line in lines:
            self._session.output.say(line)
        if not lines or self._dry_run:
            return False
        if not self._yes:
            confirm(f"Change {count(len(lines), self._thing)} of board {self._session.name!r}?", self._again)
        return True

    def report(self, changes: Sequence[Any], data: Any, same: str) -> None:
        """Say how many were changed, or would be, and ``same`` if there are none; with ``--json`` write the data."""
        done = f"would change; nothing was changed. Change them with: {self._again}" if self._dry_run else "changed"
        self._session.output.report(data, f"{count(len(changes), self._thing)} {done}" if changes else same)
