"""The command that shows what it is all for: demo."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from jobboard.cli.output import Output
from jobboard.cli.session import Session, command, pass_session
from jobboard.demo.run import Demo, Report

_MOST_SHOWN = 20


def add_demo(group: click.Group) -> None:
    """Add the command to the group."""

    @command(group, "demo", examples="""
jobboard demo ~/pictures
jobboard demo /usr/share/doc -o /tmp/SUMS --no-kill
sha256sum -c --quiet SHA256SUMS
""")  # fmt: skip
    @click.argument("directory")
    @click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("SHA256SUMS"), show_default=True)
    @click.option("--conductors", type=click.IntRange(min=1), default=3, show_default=True, help="Processes.")
    @click.option(
        "--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="Files at a time, each."
    )
    @click.option("--kill/--no-kill", default=True, show_default=True, help="Kill one of them halfway.")
    @pass_session
    def demo(session: Session, directory: str, output: Path, conductors: int, concurrency: int, kill: bool) -> None:
        """Hash all files below DIRECTORY by several processes, one of which is killed on the way.

        Posts a job a file on a new SQLite board (or on the one that --board names), and writes SHA256SUMS into the
        present directory. Exit status 1 if a file could not be read.
        """
        if not output.absolute().parent.is_dir():
            raise click.UsageError(f"there is no directory {output.absolute().parent} to write to")
        with _uri_of(session) as uri, _stopped_by_sigterm():
            options: dict[str, Any] = {"conductors": conductors, "slots": concurrency, "kill": kill}
            report = Demo(uri, directory, output, display=not session.output.json, **options).run()
        _tell(session.output, report, output)
        if report.unreadable:
            raise click.exceptions.Exit(1)


@contextmanager
def _uri_of(session: Session) -> Iterator[str]:
    if session.uri is not None:
        yield session.uri
        return
    with tempfile.TemporaryDirectory(prefix="jobboard-demo-") as directory:
        # The file is thrown away in the end, so it need not outlive a power cut.
        yield f"sqlite:///{directory}/jobs.db?synchronous=NORMAL"


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the demo as Ctrl-C does, conductors included."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(out: Output, report: Report, output: Path) -> None:
    if out.json:
        out.data(
            {
                "jobs": report.jobs,
                "seconds": report.seconds,
                "per_second": report.jobs / report.seconds if report.seconds else 0.0,
                "skipped": report.skipped,
                "killed": report.killed,
                "taken_over": report.taken_over,
                "owners": report.owners,
                "unreadable": [{"path": os.fsdecode(path), "reason": reason} for path, reason in report.unreadable],
                "output": str(output),
            }
        )
        return
    for path, reason in report.unreadable[:_MOST_SHOWN]:
        out.error(f"{os.fsdecode(path)}: {reason}")
    if len(report.unreadable) > _MOST_SHOWN:
        out.error(f"and {len(report.unreadable) - _MOST_SHOWN} more could not be read")
    out.say(f"{report.jobs} jobs in {report.seconds:.1f} s, {report.jobs / max(report.seconds, 1e-9):.0f} a second")
    for owner, number in sorted(report.owners.items()):
        out.say(f"  {owner}: {number}")
    if report.killed:
        out.say(f"{report.killed} was killed; {report.taken_over} jobs that it held were taken over and done by others")
    elif report.kill_wanted and report.jobs:
        out.say("no conductor was killed: all was done before one could be caught with a job in its hands")
    if report.skipped:
        out.say(f"{report.skipped} entries are no files, and were skipped")
    out.say(f"{output} is written; check it with: sha256sum -c --quiet {output}")
