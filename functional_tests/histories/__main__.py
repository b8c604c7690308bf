"""The command: ``python -m functional_tests.histories``."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from .run import OF_TWO_VERSIONS, Report, Wish, judge_again, processes_of, run
from .stores import STORES

_EXAMPLES = """examples:
  python -m functional_tests.histories --store redis --minutes 60 --seed 7
  python -m functional_tests.histories --store etcd-cluster --minutes 10
  python -m functional_tests.histories --check /tmp/jobboard-history-x1

A seed gives the same calls and the same faults in the same order again; what meets what in between is up to the
machine. The exit status is 1 if a promise was broken; the records are kept then, and told where.
"""


#: A fault that breaks a promise once breaks it often.
_SHOWN = 20


def main(arguments: list[str]) -> int:
    options = _options_of(arguments)
    if options.check:
        return _tell(judge_again(options.check), options.check)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    folder = options.keep or Path(tempfile.mkdtemp(prefix="jobboard-history-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{options.store}: seed {seed}, {options.minutes} min, records in {folder}", flush=True)
    if options.beside:
        wish = Wish(
            options.store, options.minutes * 60, seed, OF_TWO_VERSIONS, options.rate, 200, other_code=options.beside
        )
    else:
        wish = Wish(options.store, options.minutes * 60, seed, processes_of(options.processes), options.rate)
    return _tell(run(wish, folder, lambda line: print(line, flush=True)), folder)


def _tell(report: Report, folder: Path) -> int:
    for violation in report.violations[:_SHOWN]:
        print(f"VIOLATION {violation}")
    print(report.summary())
    if report.violations:
        print(f"the records are in {folder}")
    return 1 if report.violations else 0


def _options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m functional_tests.histories",
        description="Let processes work on a board at random under faults, and check what they wrote down.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--store", choices=sorted(STORES), default="sqlite", help="what the board is on (sqlite)")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long they work (1)")
    parser.add_argument("--seed", type=int, help="what calls and faults follow from (a random one, which is told)")
    parser.add_argument("--processes", type=int, default=1, help="how many workers have a board each (1)")
    parser.add_argument(
        "--beside",
        default="",
        metavar="FOLDER",
        help="code of another version, which half of four processes import (none)",
    )
    parser.add_argument("--rate", type=float, default=12.0, help="about how many calls a second each makes (12)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the records go (a new temporary folder)")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="only check the records of an earlier run")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
