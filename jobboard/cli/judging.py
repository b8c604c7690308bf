"""The commands about whole boards: status, boards."""

from __future__ import annotations

import time
from typing import Any

import click

from jobboard.cli.output import Output, shown
from jobboard.cli.session import Session, command, is_given, options, pass_session
from jobboard.cli.values import SPAN
from jobboard.operate.pasting import commands_by
from jobboard.operate.views import paused_texts
from jobboard.stats import COUNTED
from jobboard.text import duration
from jobboard.validation import check_delay

#: One screen has room for this many findings and names.
_MAX_FINDINGS, _MAX_NAMES = 10, 10
#: More looks than that would be work for the store, and no news for its readers.
_MIN_INTERVAL = 0.01
_STYLES = {"WELL": "bold green", "ATTENTION": "bold yellow", "BAD": "bold red"}
_COLUMNS = ("name", "unclaimed", "next_waits", "delayed", "blocked", "claimed", "trashed", "conductors", "paused")

#: What the board's verdict depends on.
limit_options = options(
    click.option(
        "--max-wait", type=SPAN, default="15m", show_default=True, help="A job that waits longer wants attention."
    ),
    click.option(
        "--max-run", type=SPAN, default="1h", show_default=True, help="A handler that runs longer wants attention."
    ),
)


@command(
    "status",
    "jobboard status",
    "jobboard status --json | jq -r '.findings[].text'",
    "jobboard status --watch --interval 5s",
    "jobboard status --max-wait 1h || echo 'look at the jobs'",
)
@limit_options
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option("--interval", type=SPAN, default="2s", show_default=True, help="The time between two looks of --watch.")
@click.option("--for", "span", type=SPAN, help="End --watch after this time.")
@pass_session
def status_command(
    session: Session, max_wait: float, max_run: float, watch: bool, interval: float, span: float | None
) -> None:
    """Say on one screen how the board is. Exit status: 0 well, 1 wants attention, 2 bad: work is not done."""
    # The board's import takes longer than all others, and --help needs none of it.
    from jobboard.operate.status import status
    from jobboard.operate.verdict import Limits, Verdict

    if not watch and (is_given("interval") or is_given("span")):
        raise click.UsageError("--interval and --for say how to --watch; give that too")
    if check_delay(interval, "--interval") < _MIN_INTERVAL:
        raise click.UsageError(f"--interval must be {_MIN_INTERVAL} seconds or more; got {interval}")
    board, limits = session.closed_board(create=False), Limits(wait=max_wait, run=max_run)
    click.get_current_context().call_on_close(board.close)
    deadline = time.monotonic() + (0.0 if not watch else float("inf") if span is None else span)
    while True:
        view = status(board, limits)
        view["findings"] = [_typed_as(session.program, finding) for finding in view["findings"]]
        if watch and session.output.is_terminal and not session.output.json:
            session.output.console.clear()
        _show(session.output, view)
        if time.monotonic() + interval > deadline:
            raise click.exceptions.Exit(Verdict[view["verdict"]])
        time.sleep(interval)


@command(
    "boards",
    "jobboard boards --board sqlite:////var/lib/jobs.db",
    "jobboard boards --json | jq -r '.[].name'",
)
@pass_session
def boards(session: Session) -> None:
    """List the boards that are in the store."""
    from jobboard.operate.doctor import boards_of

    rows = [{"name": name} for name in boards_of(session.closed_board())]
    session.output.table(("name",), rows, empty="there are no boards in this store")


def _typed_as(program: str, finding: dict[str, Any]) -> dict[str, Any]:
    cure = commands_by(program, finding["cure"])
    return {**finding, "text": finding["text"].removesuffix(finding["cure"]) + cure, "cure": cure}


def _show(output: Output, view: dict[str, Any]) -> None:
    if output.json:
        output.data(view)
        return
    output.say(f"{view['verdict']}  board {view['board']!r} on {view['store']}", _STYLES[view["verdict"]])
    for finding in view["findings"][:_MAX_FINDINGS]:
        output.say(f"  {finding['verdict'].lower():<9}  {finding['text']}", _STYLES[finding["verdict"]])
    _say_more(output, len(view["findings"]) - _MAX_FINDINGS)
    if "names" in view:
        _show_seen(output, view)
    if "shards" in view:
        output.say("")
        output.table(("shard", *COUNTED), view["shards"], empty="")


def _show_seen(output: Output, view: dict[str, Any]) -> None:
    output.say("")
    rows = [{"name": name, **row} for name, row in view["names"].items()]
    rows.sort(key=lambda row: (-row["unclaimed"], -row["claimed"], row["name"]))
    for row in rows:
        row["next_waits"] = None if row["next_waits"] is None else duration(row["next_waits"])
    columns = [column for column in _COLUMNS if column != "blocked" or any(row["blocked"] for row in rows)]
    output.table(columns, rows[:_MAX_NAMES], empty="no jobs")
    _say_more(output, len(rows) - _MAX_NAMES)
    output.say("")
    for what, text in _lines(view).items():
        output.say(f"{what:<11} {text}")


def _lines(view: dict[str, Any]) -> dict[str, str]:
    conductors, schedules = view["conductors"], view["schedules"]
    more = "" if schedules["complete"] else ", and more that were not read"
    paused = paused_texts(view["paused"]) + (["all schedulers"] if schedules["all_paused"] else [])
    paused += [f"schedule {id}" for id in schedules["pauses"]]
    slots = f"{conductors['running']} of {conductors['concurrency']} slots taken, {conductors['stuck']} stuck"
    replaced = f" ({conductors['replaced']} of them replaced)" if conductors["replaced"] else ""
    silent = f" ({conductors['silent']} of them not heard of for two heartbeats)" if conductors["silent"] else ""
    counted = f"{conductors['alive']} alive{silent}, {conductors['quiet']} quiet, {conductors['gone']} gone{replaced}"
    return {
        "conductors": f"{counted}; {slots}",
        "oldest run": _longest(conductors["longest"], any(name["claimed"] for name in view["names"].values())),
        "schedulers": f"{view['schedulers']['alive']} alive, {view['schedulers']['gone']} gone",
        "schedules": f"{schedules['active']} active, {schedules['paused']} paused, {schedules['finished']} finished, "
        f"{len(schedules['set_aside'])} set aside{more}",
        "paused": shown(paused) or "nothing",
    }


def _longest(run: dict[str, Any] | None, is_any_claimed: bool) -> str:
    if run:
        return f"{run['name']} {run['uuid']} for {duration(run['seconds'])}"
    return "none was told yet; conductors tell every 10 s" if is_any_claimed else "nothing runs"


def _say_more(output: Output, number: int) -> None:
    if number > 0:
        output.say(f"  and {number} more; --json has all")


COMMANDS = (status_command, boards)
