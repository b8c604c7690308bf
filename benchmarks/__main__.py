"""``python -m benchmarks``: measures every store (or those named), prints a JSON line per figure, then a table.

``python -m benchmarks goals`` tells which of the project's goals for speed are met. ``python -m benchmarks peers
STORE`` measures other libraries on the same store, ``python -m benchmarks loops STORE`` the loop of one worker on
TaskFlow's board and on this one. ``python -m benchmarks house`` measures the code of this checkout, or of two.
``python -m benchmarks pressure STORE`` measures what a life costs beside a long transaction, over time, and ``python -m
benchmarks lives STORE`` what it costs after a million others. ``python -m benchmarks shards`` measures what each
further server adds to a board, and ``simulated-shards`` runs a board of many shards in virtual time.
``python -m benchmarks hot-lane`` measures what other jobs wait there beside a lane with half of the jobs.
``python -m benchmarks aio`` is short for ``--only aio``.
"""

from __future__ import annotations

import argparse
import platform
import sqlite3
import sys
from dataclasses import replace

from benchmarks.catalogue import Catalogue
from benchmarks.figures import Figure, print_json, print_table
from benchmarks.goals.__main__ import main as measure_goals
from benchmarks.hot_lane import main as measure_hot_lane
from benchmarks.house import main as measure_house
from benchmarks.lives import main as measure_lives
from benchmarks.peers.__main__ import main as measure_peers
from benchmarks.peers.loops import main as measure_loops
from benchmarks.pressure import main as measure_pressure
from benchmarks.shards import main as measure_shards
from benchmarks.simulated_shards import main as simulate_shards
from benchmarks.stores import STORES

_GROUPS = Catalogue(
    {
        "rates": ("benchmarks.boards:measure_rates", ""),
        "backlog": ("benchmarks.boards:measure_backlog", ""),
        "crowd": ("benchmarks.crowds:measure_crowd", ""),
        "fan-in": ("benchmarks.fan_in:measure_fan_in", ""),
        "drain": ("benchmarks.conductors:measure_drain", ""),
        "processes": ("benchmarks.processes:measure_processes", ""),
        "sleepers": ("benchmarks.conductors:measure_sleepers", ""),
        "pickup": ("benchmarks.conductors:measure_pickup", ""),
        "schedules": ("benchmarks.schedules:measure_schedules", "dev"),
        "telemetry": ("benchmarks.telemetry:measure_telemetry", "prometheus"),
        "aio": ("benchmarks.aio:measure_aio", "aio"),
        "console": ("benchmarks.console:measure_console", "console"),
    }
)
#: These take minutes on most stores, so they are measured only when they are named.
_ON_REQUEST = {"console", "crowd", "fan-in"}
_COMMANDS = {
    "goals": measure_goals,
    "peers": measure_peers,
    "loops": measure_loops,
    "house": measure_house,
    "pressure": measure_pressure,
    "lives": measure_lives,
    "shards": measure_shards,
    "simulated-shards": simulate_shards,
    "hot-lane": measure_hot_lane,
}


def main() -> None:
    if (measure_others := _COMMANDS.get(" ".join(sys.argv[1:2]))) is not None:
        measure_others(sys.argv[2:])
        return
    if sys.argv[1:2] == ["aio"]:
        sys.argv[1:2] = ["--only", "aio"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"of {', '.join(STORES)}; all by default")
    parser.add_argument("--only", choices=_GROUPS, action="append", help="only this group of figures; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="more or less work than usual, such as 0.1")
    arguments = parser.parse_args()
    unknown = set(arguments.stores) - set(STORES)
    if unknown:
        parser.error(f"no such store: {', '.join(sorted(unknown))}; there are {', '.join(STORES)}")
    print(f"# Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.platform()}")
    stores = STORES.load(arguments.stores, STORES)
    groups = _GROUPS.load(arguments.only or (), (group for group in _GROUPS if group not in _ON_REQUEST))
    for store in stores.values():
        if store.version is not None:
            print(f"# {store.version()}")
    figures: list[Figure] = []
    for name, store in stores.items():
        for measure in groups.values():
            with store.space() as space:
                for figure in measure(name, space, arguments.scale):
                    figures.append(replace(figure, goal=store.goals.get(figure.what, "")))
                    print_json(figures[-1])
    print_table(figures)


if __name__ == "__main__":
    main()
