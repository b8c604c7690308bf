"""``python -m benchmarks pressure STORE``: what a life costs the server beside something that keeps old rows.

A life is a post, a claim and its end, in batches of 50 of one client, at a fixed rate. Each cell takes a server of its
own. The CPU is that of all processes of the server, and includes its vacuum. With ``--rounds N`` the figure of each
window is the median of N rounds, which take the cells in turn.

With ``--peers`` the lives are led by other libraries and the board in turn: one process posts in batches of 100, one
worker process runs them. They take the cells that need nothing of a board.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.boards import post
from benchmarks.catalogue import Catalogue
from benchmarks.costs import cpu_of
from benchmarks.curves import check_chart, draw_curves
from benchmarks.figures import print_rows, short
from benchmarks.peers.lives import lives_of
from benchmarks.peers.peer import JOBBOARD, Peer
from jobboard import JobBoard, fetch

_BATCH = 50
#: In seconds.
_WARM_UP = 3


@dataclass(frozen=True)
class Cell:
    """What is done beside the lives.

    :param begin: statements of another connection, which stays open; ``{table}`` is that of the jobs.
    :param step: one that it executes before each window.
    :param backlog: whether jobs wait from the beginning on.
    :param names: the names that claims ask for; None for any.
    :param retries: how many jobs of a batch are abandoned, for a second.
    """

    begin: tuple[str, ...] = ()
    step: str = ""
    backlog: bool = False
    names: tuple[str, ...] | None = None
    retries: int = 0

    @property
    def is_for_peers(self) -> bool:
        """Whether lives of other libraries can be led in it."""
        return not self.backlog and self.names is None and not self.retries


@dataclass(frozen=True)
class Pressure:
    """A kind of server under pressure."""

    start: Callable[[], Any]
    cells: dict[str, Cell]


@dataclass
class Costs:
    """What a life cost in each window, in microseconds of the server's CPU, and how many lives a second there were."""

    cpu: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)


_PRESSURES = Catalogue(
    {
        "postgresql": ("benchmarks.postgresql_store:PRESSURE", "postgresql"),
        "mariadb": ("benchmarks.mariadb_store:PRESSURE", "mysql"),
    }
)


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks pressure", description=__doc__)
    parser.add_argument("store", choices=_PRESSURES)
    parser.add_argument("--only", action="append", metavar="CELL", help="only this cell; may be repeated")
    parser.add_argument("--seconds", type=int, default=60, help="how long each cell takes (60)")
    parser.add_argument("--window", type=int, default=10, help="how many seconds of it make one figure (10)")
    parser.add_argument("--rate", type=int, default=1000, help="lives a second (1000)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each cell is measured (1)")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="how many jobs a backlog has (1000000)")
    parser.add_argument("--peers", action="store_true", help="lives of other libraries besides, by worker processes")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw the costs over time; needs matplotlib")
    given = parser.parse_args(words)
    check_chart(given.chart)
    pressure: Pressure = _PRESSURES[given.store]
    if unknown := set(given.only or ()) - set(pressure.cells):
        parser.error(f"no such cell: {', '.join(sorted(unknown))}; there are {', '.join(pressure.cells)}")
    measured: dict[tuple[str, str], list[Costs]] = defaultdict(list)
    for _ in range(given.rounds):
        for name, cell in pressure.cells.items():
            if given.only is None or name in given.only:
                for peer in _peers_of(given.store) if given.peers and cell.is_for_peers else (JOBBOARD,):
                    measured[name, peer.name].append(_measure(pressure.start, peer, cell, given, name))
    _show({of: _medians(rounds) for of, rounds in measured.items()}, given)


def _show(measured: dict[tuple[str, str], Costs], given: argparse.Namespace) -> None:
    rows = [("cell", "lives of", "first", "last", "best", "worst", "last/first", "worst/best", "lives/s at last")]
    curves: dict[str, list[tuple[float, float]]] = {}
    for (name, peer), costs in measured.items():
        curves[f"{peer}, {name}"] = [(n * given.window, cpu) for n, cpu in enumerate(costs.cpu, 1)]
        first, last, best, worst = costs.cpu[0], costs.cpu[-1], min(costs.cpu), max(costs.cpu)
        ratios = f"{last / first:.2f}", f"{worst / best:.2f}"
        rows.append((name, peer, *map(short, (first, last, best, worst)), *ratios, short(costs.rates[-1])))
    print_rows(rows)
    if given.chart is not None:
        title = f"{given.store}: CPU of the server for a life"
        draw_curves(curves, title, "seconds", "microseconds", given.chart)


def _medians(rounds: list[Costs]) -> Costs:
    """Return the median of all rounds for each window: what else a machine does falls into another window each time."""
    cpu = [statistics.median(window) for window in zip(*(costs.cpu for costs in rounds), strict=True)]
    rates = [statistics.median(window) for window in zip(*(costs.rates for costs in rounds), strict=True)]
    return Costs(cpu, rates)


def _peers_of(store: str) -> list[Peer]:
    """Return the board, and the peers that say where their jobs are."""
    peers: list[Peer] = importlib.import_module(f"benchmarks.peers.on_{store}").PEERS
    return [peer for peer in peers if peer.table]


def _measure(start: Callable[[], Any], peer: Peer, cell: Cell, given: argparse.Namespace, name: str) -> Costs:
    costs = Costs()
    with start() as server, ExitStack() as stack:
        if given.peers and cell.is_for_peers:
            live = stack.enter_context(lives_of(peer, given.store, server.uri, given.rate, given.seconds))
        else:
            live = stack.enter_context(_lives_of_board(server.uri, cell, given))
        # What is planned and read for the first time counts for nothing.
        live(_WARM_UP)
        step = stack.enter_context(_beside(server, peer.table, cell))
        for number in range(1, given.seconds // given.window + 1):
            step()
            began, before = time.perf_counter(), cpu_of(server.process.pid)
            lives = max(1, live(given.window))
            costs.rates.append(lives / (time.perf_counter() - began))
            costs.cpu.append((cpu_of(server.process.pid) - before) / lives * 1e6)
            figures = f"{costs.cpu[-1]:.0f} us a life, {costs.rates[-1]:,.0f} lives/s"
            print(f"# {name}, {peer.name}, {number * given.window} s: {figures}", flush=True)
    return costs


@contextmanager
def _beside(server: Any, table: str, cell: Cell) -> Iterator[Callable[[], object]]:
    """Do what a cell does beside the lives; yields what is called before each window."""
    with closing(server.client()) as client:
        for statement in cell.begin:
            client.cursor().execute(statement.format(table=table))
        yield (lambda: client.cursor().execute(cell.step)) if cell.step else (lambda: None)


@contextmanager
def _lives_of_board(uri: str, cell: Cell, given: argparse.Namespace) -> Iterator[Callable[[float], int]]:
    with fetch("pressure", uri) as board:
        if cell.backlog:
            post(board, given.backlog, 1000)
        yield lambda seconds: _live(board, int(given.rate * seconds), given.rate, cell)


def _live(board: JobBoard, count: int, rate: int, cell: Cell) -> int:
    """Lead about this many lives, for as long as they take at the rate and no longer; return how many."""
    began = time.perf_counter()
    ended = _BATCH - cell.retries
    for done in itertools.count(ended, ended):
        post(board, ended, ended)
        jobs = board.claim_next("bench", cell.names, limit=_BATCH)
        for job in jobs[ended:]:
            board.abandon(job, "bench", delay=1)
        if any(board.consume_many(jobs[:ended], "bench")):
            raise AssertionError("a claim was lost in a benchmark")
        elapsed = time.perf_counter() - began
        if done >= count or elapsed > count / rate:
            return done
        time.sleep(max(0.0, done / rate - elapsed))
    raise AssertionError("the count of lives has no end")
