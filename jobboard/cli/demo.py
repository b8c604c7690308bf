"""The command that shows what it is all for: demo."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from jobboard.cli.output import Output, count
from jobboard.cli.session import Session, command, pass_session
from jobboard.demo.interrupts import all_like_ctrl_c
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

        Posts a job a file on a new SQLite board (or on a new board in the store that --board names), and writes
        SHA256SUMS into the present directory. Links to files are followed, links to directories are not. Exit status 1
        if a file could not be read.
        """
        with _uri_of(session) as uri, all_like_ctrl_c():
            options: dict[str, Any] = {"conductors": conductors, "slots": concurrency, "kill": kill}
            run = Demo(uri, directory, output, display=not session.output.json, **options)
            try:
                report = run.run()
            except KeyboardInterrupt:
                where = f"; what is left is on board {run.board!r}" if session.uri is not None else ""
                session.output.error(f"interrupted; {output} is not written{where}")
                raise
        if session.output.json:
            session.output.data(_view_of(report, output))
        else:
            _tell(session.output, report, output, kill_wanted=kill)
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


def _view_of(report: Report, output: Path) -> dict[str, Any]:
    return {
        "board": report.board,
        "jobs": report.jobs,
        "seconds": report.seconds,
        "per_second": _per_second(report),
        "skipped": report.skipped,
        "killed": report.killed,
        "taken_over": report.taken_over,
        "owners": report.owners,
        "unreadable": [{"path": os.fsdecode(path), "reason": reason} for path, reason in report.unreadable],
        "output": str(output),
    }


def _per_second(report: Report) -> float:
    return report.jobs / report.seconds if report.seconds else 0.0


def _tell(out: Output, report: Report, output: Path, *, kill_wanted: bool) -> None:
    for path, reason in report.unreadable[:_MOST_SHOWN]:
        out.error(f"{os.fsdecode(path)}: {reason}")
    if len(report.unreadable) > _MOST_SHOWN:
        out.error(f"and {len(report.unreadable) - _MOST_SHOWN} more could not be read")
    if report.jobs:
        rate = f"{_per_second(report):.{0 if report.jobs > 100 else 1}f} a second"
        out.say(f"{count(report.jobs, 'job')} in {report.seconds:.1f} s, {rate}")
    else:
        out.say("0 jobs: there are no files to hash")
    for owner, number in sorted(report.owners.items()):
        out.say(f"  {owner}: {number}")
    if report.killed:
        out.say(f"{report.killed} was killed; taken over from it, and done by others: {report.taken_over}")
    elif kill_wanted and report.jobs:
        out.say("no conductor was killed: none of them could be spared, or caught with a job in its hands")
    if report.skipped:
        out.say(f"skipped (links to directories, sockets, pipes, devices): {report.skipped}")
    hint = f"; check it with: sha256sum -c --quiet {shlex.quote(str(output))}" if report.owners else ", and empty"
    out.say(f"{output} is written{hint}")
