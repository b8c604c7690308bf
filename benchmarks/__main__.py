"""``python -m benchmarks``: measures every store (or those named), prints a JSON line per figure, then a table.

``python -m benchmarks peers STORE`` measures other libraries on the same store instead, ``python -m benchmarks loops
STORE`` the loop of one worker on TaskFlow's board and on this one. ``python -m benchmarks house`` measures the code of
this checkout, or of two. ``python -m benchmarks aio`` is short for ``--only aio``.
"""

from __future__ import annotations

import argparse
import platform
import sqlite3
import sys
from dataclasses import replace

from benchmarks.aio import measure_aio
from benchmarks.boards import measure_backlog, measure_rates
from benchmarks.conductors import measure_drain, measure_pickup, measure_sleepers
from benchmarks.console import measure_console
from benchmarks.figures import Figure, print_json, print_table
from benchmarks.house import main as measure_house
from benchmarks.peers.__main__ import main as measure_peers
from benchmarks.peers.loops import main as measure_loops
from benchmarks.processes import measure_processes
from benchmarks.schedules import measure_schedules
from benchmarks.stores import STORES
from benchmarks.telemetry import measure_telemetry

_GROUPS = {
    "rates": measure_rates,
    "backlog": measure_backlog,
    "drain": measure_drain,
    "processes": measure_processes,
    "sleepers": measure_sleepers,
    "pickup": measure_pickup,
    "schedules": measure_schedules,
    "telemetry": measure_telemetry,
    "aio": measure_aio,
    "console": measure_console,
}
#: Takes minutes on most stores, so it is measured only when it is named.
_ON_REQUEST = {"console"}


def main() -> None:
    if sys.argv[1:2] == ["peers"]:
        measure_peers(sys.argv[2:])
        return
    if sys.argv[1:2] == ["loops"]:
        measure_loops(sys.argv[2:])
        return
    if sys.argv[1:2] == ["house"]:
        measure_house(sys.argv[2:])
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
    for name in arguments.stores or STORES:
        if (version := STORES[name].version) is not None:
            print(f"# {version()}")
    figures: list[Figure] = []
    for name in arguments.stores or STORES:
        for group in arguments.only or (group for group in _GROUPS if group not in _ON_REQUEST):
            with STORES[name].space() as space:
                for figure in _GROUPS[group](name, space, arguments.scale):
                    figures.append(replace(figure, goal=STORES[name].goals.get(figure.what, "")))
                    print_json(figures[-1])
    print_table(figures)


if __name__ == "__main__":
    main()
