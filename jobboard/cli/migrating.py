"""The command that makes a store's tables: migrate."""

from __future__ import annotations

import click

from jobboard.cli.session import Session, command, pass_session


def add_migrating(group: click.Group) -> None:
    """Add the command to the group."""

    @command(group, "migrate", examples="""
jobboard migrate --board postgresql://owner@db.example.org/app
jobboard migrate --board 'mysql://owner@db.example.org/app?prefix=queue_' --json
""")  # fmt: skip
    @pass_session
    def migrate(session: Session) -> None:
        """Create the tables of a board in an SQL database, or bring them to this jobboard's version.

        Boards do so by themselves when they are opened, unless their URI says migrate=false, so that they need no right
        to make tables. Changes nothing that is up to date, and refuses what a newer jobboard has made.
        """
        board = session.closed_board()
        migration = board.migrate()
        before = "there were no tables" if migration.found is None else f"it was {migration.found}"
        if migration.found == migration.now:
            session.output.say(f"the schema is {migration.now}, as it was")
        else:
            session.output.say(f"the schema is {migration.now}; {before}")
        if session.output.json:
            session.output.data({"store": board.store, "found": migration.found, "now": migration.now})
