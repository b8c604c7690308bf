"""One history from its start to the verdict of the checker."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from jobboard import JobBoard, fetch
from jobboard.backends.base import RETRY_WINDOW

from .checks import Violation, check
from .crew import Crew, Settings, ThreadCrew
from .history import History, Rules
from .nemesis import Nemesis
from .plan import NAMES
from .records import Fault, Op, read
from .rest import Rest, check_rest, drain, look, look_at_what_is_left, patiently, use_once
from .stores import STORES, Site

#: Records of jobs that have ended are readable for this many seconds, so that the last ones soon go.
_RETENTION = 1.0
#: Stores may forget a little later, and a busy machine later still.
_SLACK = 40.0
_TELL_EVERY = 5.0
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


@dataclass(frozen=True)
class Wish:
    """What history is wanted.

    :param rate: about how many calls a second each process makes.
    :param least_calls: it goes on until so many were made, for up to a minute longer.
    :param forgotten_within: seconds after which a store has forgotten what it remembers of jobs that have ended.
    """

    store: str
    seconds: float
    seed: int
    processes: int = 4
    rate: float = 12.0
    least_calls: int = 0
    forgotten_within: float = RETRY_WINDOW + _RETENTION + _SLACK


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
        # Threads of one process share its memory, and so would two histories of one name.
        name = f"history-{wish.seed}-{uuid4().hex[:8]}"
        settings = Settings(
            site.uri, name, {"retention": _RETENTION, **site.options}, folder, wish.seed, wish.rate,
            site.clocks,
        )  # fmt: skip
        calm = {**settings.options, "patience": 20.0}
        new = f"{name}-new"
        with fetch(new, site.calm_uri, **calm) as board:
            use_once(board, NAMES)
        crew = _crew_of(site, settings, wish, make_board)
        lanes = {"processes": crew.disturbances(), "store": {} if make_board else site.disturbances}
        crew.start()
        with Nemesis(wish.seed, lanes, folder / "faults.jsonl") as nemesis:
            _watch(wish, folder, nemesis, tell)
        crew.stop()
        if nemesis.error is not None:
            raise nemesis.error
        tell(f"{wish.store} seed {wish.seed}: looking at the store at rest")
        boards = [make_board(each) if make_board else fetch(each, site.calm_uri, **calm) for each in (name, new)]
        rest = _rest_of(site, boards[0], boards[1], wish.forgotten_within)
    ops = read(folder.glob("w*.jsonl"))
    (folder / "rest.json").write_text(
        json.dumps({"rest": asdict(rest), "rules": asdict(site.rules), "crew": crew.faults}, indent=1)
    )
    return judge(ops, nemesis.faults, rest, site.rules, crew.faults)


def judge(ops: list[Op], faults: list[Fault], rest: Rest, rules: Rules, broken: list[str]) -> Report:
    """Check records that there are."""
    history = History(ops, faults, rules)
    crashed = [Violation("a process ends in good order", text) for text in broken]
    return Report(ops, faults, rest, [*crashed, *check(history), *check_rest(history, rest)])


def judge_again(folder: Path) -> Report:
    """Check what an earlier run has left in its folder."""
    left = json.loads((folder / "rest.json").read_text())
    path = folder / "faults.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    faults = [Fault(**json.loads(line)) for line in lines]
    return judge(read(folder.glob("w*.jsonl")), faults, Rest(**left["rest"]), Rules(**left["rules"]), left["crew"])


def _crew_of(
    site: Site, settings: Settings, wish: Wish, make_board: Callable[[str], JobBoard] | None
) -> Crew | ThreadCrew:
    make = make_board or site.make_board
    return Crew(settings, wish.processes) if make is None else ThreadCrew(settings, wish.processes, make)


def _watch(wish: Wish, folder: Path, nemesis: Nemesis, tell: Callable[[str], None]) -> None:
    """Let it go on for its time, and tell how far it is."""
    pause, start, calls = threading.Event(), time.monotonic(), 0
    while (left := start + wish.seconds - time.monotonic()) > (0 if calls >= wish.least_calls else -_LONGER):
        pause.wait(min(max(left, 0.2), _TELL_EVERY))
        calls = sum(path.read_bytes().count(b'"start"') for path in folder.glob("w*.jsonl"))
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
