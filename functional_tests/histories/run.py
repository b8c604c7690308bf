"""One history from its start to the verdict of the checker."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from jobboard import Job, JobBoard, JobState, fetch
from jobboard.backends.base import RETRY_WINDOW

from .checks import CHECKS, Violation, check
from .conducting import EXPIRIES, HELD, LOCKED, runs_long
from .crew import Crew, Settings, ThreadCrew
from .faults import of_replies, of_row
from .history import History, Rules
from .lanes import LANE_CHECKS, set_limits
from .nemesis import Disturbance, Nemesis
from .plan import CONDUCTED, NAMES, PLAIN
from .records import Fault, Op, read
from .rest import Rest, check_rest, drain, look, look_at_what_is_left, patiently, use_once
from .run_checks import RUN_CHECKS
from .stores import STORES, Site

#: Records of jobs that have ended are readable for this many seconds, so that the last ones soon go.
_RETENTION = 1.0
#: Stores may forget a little later, and a busy machine later still: a new leader of etcd, which may be chosen since
#: messages come late, begins all leases anew.
_SLACK = 40.0 + RETRY_WINDOW
_TELL_EVERY = 5.0
_FAULTS = "faults.jsonl"
#: For how much longer a history goes on that has not made its calls yet.
_LONGER = 60.0


@dataclass
class Report:
    """What a history showed."""

    ops: list[Op]
    faults: list[Fault]
    rest: Rest
    violations: list[Violation]

    def summary(self) -> str:
        outcomes = Counter(op.outcome for op in self.ops)
        told = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
        kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(f.kind for f in self.faults).most_common())
        return f"{len(self.ops)} calls ({told}); {len(self.faults)} faults ({kinds}); {len(self.violations)} violations"


def processes_of(alone: int) -> tuple[str, ...]:
    """Return this many workers on boards of their own, one whose threads share a board, one whose tasks do, and the
    conductors.
    """
    return (*(f"w{index}" for index in range(alone)), "g0", "a0", *EXPIRIES)


#: Two workers and two conductors, one of each of another version.
OF_TWO_VERSIONS = ("w0", "w1", "c0", "c1")


@dataclass(frozen=True)
class Wish:
    """What history is wanted.

    :param processes: who works, by names whose first letters say as what.
    :param rate: about how many calls a second each process makes.
    :param least_calls: it goes on until this many were made, for up to a minute longer.
    :param rules: what holds, if it is not what the store's documents say.
    :param forgotten_within: seconds after which a store has forgotten what it remembers of jobs that have ended.
    :param other_code: where another version of jobboard is; the processes whose names end in 1 import it.
    """

    store: str
    seconds: float
    seed: int
    processes: tuple[str, ...] = processes_of(1)
    rate: float = 12.0
    least_calls: int = 0
    rules: Rules | None = None
    forgotten_within: float = RETRY_WINDOW + _RETENTION + _SLACK
    other_code: str = ""


def run(
    wish: Wish,
    folder: Path,
    tell: Callable[[str], None] = lambda _: None,
    make_board: Callable[[str], JobBoard] | None = None,
) -> Report:
    """Make a history; all that the verdict rests on is left in ``folder``.

    :param tell: takes a line of progress every few seconds.
    :param make_board: for a store within this process: what threads work on, given the board's name.
    """
    with STORES[wish.store](folder) as site:
        site.rules = wish.rules or site.rules
        # Threads of one process share its memory, and so would two histories of one name.
        name = f"history-{wish.seed}-{uuid4().hex[:8]}"
        settings = Settings(
            site.uri, name, {"retention": _RETENTION, **site.options}, folder, wish.seed, wish.rate,
            site.clocks,
        )  # fmt: skip
        calm = {**settings.options, **site.patience, "patience": 20.0}
        new = f"{name}-new"
        board = fetch(new, site.calm_uri, **calm)
        patiently(board.connect)
        with board:
            use_once(board, NAMES)
        with make_board(name) if make_board else fetch(name, site.calm_uri, **calm) as board:
            set_limits(board)
        crew = _crew_of(site, settings, wish, make_board)
        lanes = {"processes": crew.disturbances()}
        if not make_board:
            lanes["store"] = site.disturbances | _locked_rows(site, name, calm)
            lanes["lines of conductors"] = of_replies({
                label: (line.proxy, EXPIRIES[label]) for label, line in site.lines.items() if label in HELD
            })  # fmt: skip
        crew.start()
        with Nemesis(wish.seed, lanes, folder / _FAULTS) as nemesis:
            _watch(wish, folder, nemesis, tell)
        crew.stop()
        if nemesis.error is not None:
            raise nemesis.error
        tell(f"{wish.store} seed {wish.seed}: looking at the store at rest")
        boards = [make_board(each) if make_board else fetch(each, site.calm_uri, **calm) for each in (name, new)]
        rest = _rest_of(site, boards[0], boards[1], wish.forgotten_within)
    ops = read(_diaries(folder))
    (folder / "rest.json").write_text(
        json.dumps({"rest": asdict(rest), "rules": asdict(site.rules), "crew": crew.faults}, indent=1)
    )
    return judge(ops, nemesis.faults, rest, site.rules, crew.faults)


def judge(ops: list[Op], faults: list[Fault], rest: Rest, rules: Rules, broken: list[str]) -> Report:
    """Check records that there are."""
    history = History(ops, faults, rules)
    crashed = [Violation("a process ends in good order", text) for text in broken]
    return Report(
        ops, faults, rest, [*crashed, *check(history, [*CHECKS, *RUN_CHECKS, *LANE_CHECKS]), *check_rest(history, rest)]
    )


def judge_again(folder: Path) -> Report:
    """Check what an earlier run has left in its folder."""
    left = json.loads((folder / "rest.json").read_text())
    path = folder / _FAULTS
    lines = path.read_text().splitlines() if path.exists() else []
    faults = [Fault(**json.loads(line)) for line in lines]
    return judge(read(_diaries(folder)), faults, Rest(**left["rest"]), Rules(**left["rules"]), left["crew"])


def _diaries(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.jsonl") if path.name != _FAULTS]


def _crew_of(
    site: Site, settings: Settings, wish: Wish, make_board: Callable[[str], JobBoard] | None
) -> Crew | ThreadCrew:
    told = {label: _told_to(label, settings, site, wish.other_code) for label in wish.processes}
    make = make_board or site.make_board
    return Crew(told) if make is None else ThreadCrew(told, make)


def _told_to(label: str, settings: Settings, site: Site, other_code: str) -> Settings:
    options = {**settings.options, "gather": label[0] == "g" or label == LOCKED}
    settings = replace(settings, code=other_code if label.endswith("1") else "")
    line = site.lines.get(label)
    patience = site.patience if label[0] == "c" else {}
    return replace(settings, uri=line.uri if line else settings.uri, options={**options, **patience})


def _is_of(label: str, job: Job) -> bool:
    return str(job.record.owner).startswith(f"{label}.")


def _locked_rows(site: Site, name: str, options: dict[str, Any]) -> dict[str, Disturbance]:
    if site.lock is None:
        return {}
    board = fetch(name, site.calm_uri, **options)

    def claimed(names: tuple[str, ...]) -> list[Job]:
        with board:
            return list(board.iterjobs(states={JobState.CLAIMED}, names=names))

    def run_long() -> list[str]:
        return [job.uuid for job in claimed(CONDUCTED) if _is_of(LOCKED, job) and runs_long(job.details["n"])]

    def by_workers() -> list[str]:
        return [job.uuid for job in claimed(PLAIN)]

    rows = {"lock a row of a conductor": run_long, "lock a row of a worker": by_workers}
    return {kind: of_row(uuids, site.lock) for kind, uuids in rows.items()}


def _watch(wish: Wish, folder: Path, nemesis: Nemesis, tell: Callable[[str], None]) -> None:
    """Let it go on for its time, and tell how far it is."""
    pause, start, calls = threading.Event(), time.monotonic(), 0
    while (left := start + wish.seconds - time.monotonic()) > (0 if calls >= wish.least_calls else -_LONGER):
        pause.wait(min(max(left, 0.2), _TELL_EVERY))
        calls = sum(path.read_bytes().count(b'"start"') for path in _diaries(folder))
        tell(f"{wish.store} seed {wish.seed}: {time.monotonic() - start:.0f} of {wish.seconds:.0f} s, {calls} calls, "
             f"{len(nemesis.faults)} faults")  # fmt: skip


def _rest_of(site: Site, board: JobBoard, new: JobBoard, forgotten_within: float) -> Rest:
    for each in (board, new):
        patiently(each.connect)
    with board, new:
        site.hasten(board.name, new.name)
        rest = look(board)
        drain(board, rest)
        site.hasten(board.name, new.name)
        look_at_what_is_left((board, new), rest, site.holds, forgotten_within)
    return rest
