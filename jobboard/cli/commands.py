"""The commands of ``jobboard``: what ``--help`` says of each, and the module that is imported when it is asked for."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module

import click

#: The commands of each module and their summaries. To import all of them takes longer than most commands do.
_MODULES = {
    "booking": {
        "book": "Logbooks: what jobs write down for those who go on.",
    },
    "conducting": {
        "conductor": "Claim jobs and run their handlers until SIGTERM, SIGINT or SIGHUP; a second signal ends "
        "it at once.",
        "scheduler": "Post what is due until SIGTERM or SIGINT; any number may run at the same time.",
    },
    "doctoring": {
        "doctor": "Say what is installed, what the board's store is, how far its clock is off, and what this "
        "login may do.",
    },
    "judging": {
        "boards": "List the boards that are in the store.",
        "status": "Say on one screen how the board is.",
    },
    "limiting": {
        "lanes": "List the lanes that have live jobs, those with the most blocked jobs first; or show one.",
        "limits": "List the limits of names and lanes; its commands set, remove, apply and export them.",
    },
    "measuring": {
        "metrics": "Show the board's gauges as Prometheus reads them, or serve them: one such process a board "
        "is enough.",
    },
    "operating": {
        "check": "Look for records that contradict each other; exit status 1 if any are left.",
        "migrate": "Create the tables of a board in an SQL database, or bring them to this jobboard's version.",
        "pause": "Let no more jobs of this name, or of a lane, be claimed; without either, no jobs at all.",
        "purge": "Delete jobs from the trash for good; asks first.",
        "quiet": "Let a conductor claim no more, wherever it runs; its handlers go on.",
        "release": "End the claims of jobs: they are claimable again at once, and their owners can't end them "
        "any more.",
        "reprioritize": "Give jobs that wait another priority; asks first if it is not one JOB.",
        "restore": "Bring jobs back from the trash, with no attempts used; asks first if it is not one JOB.",
        "resume": "Undo a pause of this name or lane; without either, that of the whole board.",
        "run-now": "Let delayed jobs be claimed ahead of their time; asks first if it is not one JOB.",
        "trash": "Put jobs into the trash, of any owner; asks first if it is not one JOB.",
        "trashed": "List the trash.",
        "upgrade": "Bring a board to the layout that this jobboard uses, in place, once all its programs are stopped.",
    },
    "producing": {
        "cancel": "Take jobs off the board; of those that are claimed, ask the owner to stop.",
        "import": "Post the jobs of FILE (- for standard input), which export --details wrote, under their uuids, with "
        "no attempts.",
        "post": "Post a job, and print its uuid: the tracking id.",
        "signal": "Send a signal to a job, which waits for it or will; of two of one name the first one stays.",
    },
    "scheduling": {
        "schedule": "Schedules: what is posted when.",
    },
    "serving": {
        "serve": "Serve the console, pages about boards in a browser, until SIGTERM or SIGINT.",
    },
    "showing": {
        "show": "Show a job: its posting, its record, its steps and its history; or the graph that it is a part of.",
        "why": "Say why a job is not running.",
    },
    "simulating": {
        "simulate": "Try limits before a deploy: run arrivals of jobs with and without them, and compare the waits.",
    },
    "sharding": {
        "shards": "Count the jobs of each shard, and say which shards do not answer; exit status 2 if there are any.",
    },
    "waiting": {
        "wait": "Wait until jobs have ended.",
    },
    "watching": {
        "entities": "Show the conductors and other participants, alive or not.",
        "export": "Write jobs as JSON, one a line, in the order of claims; without --state those on the board.",
        "ls": "List jobs in the order in which they are claimed; without --state those on the board.",
        "owners": "Show who holds how many jobs.",
        "stats": "Count the jobs by state and name, and say what is paused.",
        "watch": "Show the events of the board as they happen.",
    },
}
_SUMMARIES = {name: summary for commands in _MODULES.values() for name, summary in commands.items()}


def summary_of(name: str, limit: int = 1000) -> str:
    """Return the line of a command in the list, shortened as click shortens the command's own help."""
    return click.Command(name, help=_SUMMARIES[name]).get_short_help_str(limit)


def _import(name: str) -> click.Command:
    module = next(module for module, commands in _MODULES.items() if name in commands)
    found: tuple[click.Command, ...] = import_module(f"jobboard.cli.{module}").COMMANDS
    return next(command for command in found if command.name == name)


class Commands(click.Group):
    """Imports a command when it is asked for, and none for the list of them."""

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """All of them, imported."""
        return {name: _import(name) for name in _SUMMARIES}

    @commands.setter
    def commands(self, commands: MutableMapping[str, click.Command]) -> None:
        """Ignore the commands that click's constructor sets: none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _import(cmd_name) if cmd_name in _SUMMARIES else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        limit = formatter.width - 6 - max(map(len, _SUMMARIES))
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary_of(name, limit)) for name in sorted(_SUMMARIES)])
