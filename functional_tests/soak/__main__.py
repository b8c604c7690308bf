"""The command: ``python -m functional_tests.soak``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from histories.stores import STORES

from .figures import trends
from .run import run

_EXAMPLES = """examples:
  python -m functional_tests.soak --store redis --minutes 60
  python -m functional_tests.soak --store sqlite --minutes 5 --rate 40

The exit status is 1 if a figure grew: if it is larger in the last third of the run than in the one before, by more than
allocators, pools and a changing number of jobs account for; or if a promise was broken: a job that was posted and never
ran, or ran twice at once, a fire time that is missing or was posted twice.
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m functional_tests.soak",
        description="Let conductors and schedulers work for long; what they and the store hold must stay flat.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    stores = sorted(set(STORES) - {"memory"})
    parser.add_argument("--store", choices=stores, default="sqlite", help="what the board is on (sqlite)")
    parser.add_argument("--minutes", type=float, default=60.0, help="for how long; at least 5 say something (60)")
    parser.add_argument("--rate", type=float, default=20.0, help="jobs posted a second (20)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="jobboard-soak-") as folder:
        soak = run(options.store, options.minutes * 60, Path(folder), _tell, options.rate)
    found = trends(soak.samples)
    _tell(f"{options.store}, {options.minutes:g} min, {options.rate:g} jobs/s: the largest of each third")
    for trend in found:
        _tell(str(trend))
    for violation in soak.violations:
        _tell(f"VIOLATION {violation}")
    return 1 if soak.violations or any(trend.grew for trend in found) else 0


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
