"""``python -m benchmarks goals [STORE...]``: measures what the project wants to reach, and tells what is met.

All sides of a goal take turns for some rounds; a goal is met by the median of the figures, or of the rounds' ratios.
Progress and single figures go to the standard error.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

from benchmarks.catalogue import Catalogue
from benchmarks.goals.goal import Part, Setting
from benchmarks.goals.report import Outcome, outcome_of, print_json, print_table
from benchmarks.peers.report import Results

GOALS = Catalogue(
    {
        "start": ("benchmarks.goals.on_start:PARTS", "cli"),
        "redis": ("benchmarks.goals.on_redis:PARTS", "redis"),
        "postgresql": ("benchmarks.goals.on_postgresql:PARTS", "postgresql"),
        "mariadb": ("benchmarks.goals.on_others:MARIADB", "mysql"),
        "sqlite-full": ("benchmarks.goals.on_sqlite:PARTS", ""),
        "zookeeper": ("benchmarks.goals.on_others:ZOOKEEPER", "zookeeper"),
        "etcd": ("benchmarks.goals.on_others:ETCD", "etcd"),
    }
)


def main(words: list[str]) -> None:
    parser = _parser()
    given = parser.parse_args(words)
    if unknown := set(given.stores) - set(GOALS):
        parser.error(f"no such store: {', '.join(sorted(unknown))}; there are {', '.join(GOALS)}")
    setting = Setting(given.rounds, given.scale, given.against, given.core)
    if not given.json:
        print(f"# Python {platform.python_version()}, {platform.platform()}, {setting.rounds} rounds")
    with redirect_stdout(sys.stderr):
        parts = GOALS.load(given.stores, GOALS)
    outcomes = []
    for store, of_store in parts.items():
        for part in of_store:
            if not given.only or part.name in given.only:
                for outcome in measure(store, part, setting):
                    outcomes.append(outcome)
                    print_json(outcome)
    if not given.json:
        print_table(outcomes)


def measure(store: str, part: Part, setting: Setting) -> Iterator[Outcome]:
    """Let the sides of a part take turns, and say what became of each goal."""
    try:
        with redirect_stdout(sys.stderr):
            found = _rounds(store, part, setting)
    except SystemExit as error:
        # A program is missing, or a server did not start.
        yield from (Outcome(store, goal, fault=str(error)) for goal in part.goals)
    else:
        yield from (outcome_of(store, goal, found) for goal in part.goals)


def _rounds(store: str, part: Part, setting: Setting) -> dict[str, Results]:
    began = time.monotonic()
    with part.sides(setting) as sides:
        found = {name: Results() for name in sides}
        for number in range(1, setting.rounds + 1):
            print(f"# {store}, {part.name}: round {number} of {setting.rounds}, after {time.monotonic() - began:.0f} s")
            for name, measure_round in sides.items():
                measure_round(found[name])
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks goals", description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"of {', '.join(GOALS)}; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured, in turn (5)")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="a checkout of the commit before")
    parser.add_argument("--only", action="append", metavar="PART", help="only this part of a store, such as peers")
    parser.add_argument("--core", help="the processor that the processes of peers share; the server has the others")
    parser.add_argument("--scale", type=float, default=1.0, help="more or less work than usual, such as 0.1")
    parser.add_argument("--json", action="store_true", help="print lines of JSON only, and no table")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:])
