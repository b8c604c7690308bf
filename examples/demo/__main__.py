"""The command: ``bin/demo DIRECTORY``."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from demo.interrupts import all_like_ctrl_c
from demo.run import Demo, Report
from jobboard.cli.app import run
from jobboard.cli.output import Output, count

MAX_SHOWN = 20

_EPILOG = """\b
Examples:
  bin/demo ~/pictures
  bin/demo /usr/share/doc -o /tmp/SUMS --no-kill
  sha256sum -c --quiet SHA256SUMS
"""


@click.command("bin/demo", epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("directory")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("SHA256SUMS"), show_default=True)
@click.option("--conductors", type=click.IntRange(min=1), default=3, show_default=True, help="Processes.")
@click.option("--concurrency", type=click.IntRange(min=1), default=16, show_default=True, help="Files at a time, each.")
@click.option("--kill/--no-kill", default=True, show_default=True, help="Kill one of them halfway.")
@click.option("--board", "uri", envvar="JOBBOARD_URI", metavar="URI", help="The store; else a temporary SQLite file.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_obj
def demo(
    out: Output,
    directory: str,
    output: Path,
    conductors: int,
    concurrency: int,
    kill: bool,
    uri: str | None,
    as_json: bool,
) -> None:
    """Hash all files below DIRECTORY by several processes, one of which is killed on the way.

    Posts a job a file on a new SQLite board (or on a new board in the store that --board names), and writes SHA256SUMS
    into the present directory. Links to files are followed, links to directories are not. Exit status 1 if a file could
    not be read.
    """
    out.json = as_json
    with _store(uri) as store, all_like_ctrl_c():
        options: dict[str, Any] = {"conductors": conductors, "slots": concurrency, "kill": kill}
        it = Demo(store, directory, output, display=not as_json, **options)
        try:
            report = it.run()
        except KeyboardInterrupt:
            where = f"; what is left is on board {it.board!r}" if uri is not None else ""
            out.error(f"interrupted; {output} is not written{where}")
            raise
    if as_json:
        out.data(_view_of(report, output))
    else:
        _tell(out, report, output, kill_wanted=kill)
    if report.unreadable:
        raise click.exceptions.Exit(1)


@contextmanager
def _store(uri: str | None) -> Iterator[str]:
    if uri is not None:
        yield uri
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
    for path, reason in report.unreadable[:MAX_SHOWN]:
        out.error(f"{os.fsdecode(path)}: {reason}")
    if len(report.unreadable) > MAX_SHOWN:
        out.error(f"and {len(report.unreadable) - MAX_SHOWN} more could not be read")
    if report.jobs:
        rate = f"{_per_second(report):.{0 if report.jobs > 100 else 1}f} a second"
        # It would have failed otherwise.
        out.say(f"{count(report.jobs, 'job')} in {report.seconds:.1f} s, {rate}: none is lost, none was done twice")
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


if __name__ == "__main__":
    sys.exit(run(root=demo))
