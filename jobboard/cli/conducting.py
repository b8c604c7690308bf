"""The command that works: conductor."""

from __future__ import annotations

import importlib
import logging
import os
import sys

import click

from jobboard.cli.session import Session, command, pass_session
from jobboard.conductor import Conductor, Handlers, stop_on_signals


def add_conducting(group: click.Group) -> None:
    """Add the command to the group."""

    @command(group, "conductor", examples="""
jobboard --board sqlite:///jobs.db conductor mywork.jobs:handlers
jobboard conductor mywork.jobs:handlers --concurrency 8 --executor process --drain 60
""")  # fmt: skip
    @click.argument("handlers", metavar="MODULE:HANDLERS")
    @click.option("--label", default="conductor", show_default=True, help="What operators see as its name.")
    @click.option("--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="Handlers at a time.")
    @click.option("--executor", default="thread", show_default=True, help="thread, process, asyncio, or another's.")
    @click.option("--expiry", type=float, default=30.0, show_default=True, help="Seconds a claim lasts unrenewed.")
    @click.option("--drain", type=float, default=30.0, show_default=True, help="Seconds to finish in after SIGTERM.")
    @pass_session
    def conductor(
        session: Session, handlers: str, label: str, concurrency: int, executor: str, expiry: float, drain: float
    ) -> None:
        """Claim jobs and run their handlers until SIGTERM or SIGINT; a second signal ends it at once."""
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
        worker = Conductor(
            label, session.board(), load_handlers(handlers), concurrency=concurrency, executor=executor, expiry=expiry
        )
        with stop_on_signals(lambda: worker.stop(timeout=drain)):
            worker.start()
            session.output.say(f"{worker.who} works on board {session.name!r}")
            sys.stdout.flush()
            worker.wait()


def load_handlers(text: str) -> Handlers:
    """Import ``MODULE:HANDLERS``, also from the present directory."""
    module_name, colon, attribute = text.partition(":")
    if not colon or not module_name or not attribute:
        raise click.UsageError(f"{text!r} is not MODULE:HANDLERS, such as mywork.jobs:handlers")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise click.UsageError(f"there is no module {error.name!r} to import") from None
        raise click.ClickException(f"{module_name} can't be imported: {error}") from error
    found = getattr(module, attribute, None)
    if not isinstance(found, Handlers):
        raise click.UsageError(f"{module_name} has no Handlers named {attribute!r}")
    return found
