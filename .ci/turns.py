"""What CI does in turn: of suites that do the same on each store, or that take long, a run takes some.

``pytestmark = pytest.mark.in_turn(2)`` in a suite: two of its stores, and what is of no store. ``turn_of("the demo")``:
all of it, in the runs that draw it from its group. Which ones follows from the content of the checkout: a run can be
repeated, and the next change has others. All are taken where ``CI`` is not set, and with ``JOBBOARD_ALL_TESTS=1``.

``python .ci/turns.py SUITE COMMAND...`` runs a command if the suite has its turn.
"""

from __future__ import annotations

import datetime
import functools
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Not every environment of tox has it.
    import pytest

#: Suites that take long and seldom fail: a run takes one of each group, whose suites take about as long as each other.
GROUPS = (
    ("contract on distributed PostgreSQL", "contract on SQLite shards", "servers that come and go"),
    ("Galera", "cluster of etcd", "ensemble of ZooKeeper", "newer servers"),
    ("shards on Redis", "shards on Redis Cluster", "a guide's Redis Cluster"),
    ("the demo", "suites of Django", "suites of TaskFlow"),
    ("nights of operators", "nights on the console", "the console in a browser"),
    ("scale of Redis", "scale of ZooKeeper", "fair shares"),
    ("cluster of Redis", "Sentinel"),
    ("clones", "pictures of the console", "lifespans of processes"),
    ("oldest libraries", "each extra of the wheel", "another Python"),
    (
        "oldest libraries of etcd",
        "oldest libraries of MariaDB",
        "oldest libraries of PostgreSQL",
        "oldest libraries of ZooKeeper",
    ),
)


def taken(what: str, some: Sequence[str], count: int, content: str | None = None) -> Sequence[str]:
    """Return so many of some: those that this run takes.

    :param what: what is run; for something else, others are drawn.
    :param content: stands for the content of the checkout.
    """
    if "CI" not in os.environ or os.environ.get("JOBBOARD_ALL_TESTS"):
        return some
    return random.Random(f"{content or _content()} {what}").sample(some, min(count, len(some)))


def has_its_turn(suite: str) -> bool:
    """Whether this run takes a suite of the ``GROUPS``."""
    [group] = [group for group in GROUPS if suite in group]
    return suite in taken(" or ".join(group), group, 1)


def leave_out_what_others_take(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked as a suite of the ``GROUPS`` that another run takes."""
    left = [item for item in items if (mark := item.get_closest_marker("turn_of")) and not has_its_turn(mark.args[0])]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


def skip_what_others_take(items: Iterable[pytest.Item], store_of: Callable[[str], str]) -> None:
    """Skip the tests of those stores that another run takes."""
    import pytest

    suites = defaultdict[Path, list[tuple[pytest.Item, str]]](list)
    for item in items:
        if item.get_closest_marker("in_turn") and (store := store_of(item.nodeid)):
            suites[item.path].append((item, store))
    for suite, tests in suites.items():
        [count] = tests[0][0].get_closest_marker("in_turn").args  # type: ignore[union-attr]
        ours = taken(suite.stem, sorted({store for _, store in tests}), count)
        for test, store in tests:
            if store not in ours:
                test.add_marker(pytest.mark.skip(f"another run's turn; this one takes {', '.join(ours)}"))


@functools.cache
def _content() -> str:
    """Return what stands for the content of the checkout; without git, of this day."""
    tree = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return tree.stdout or str(datetime.datetime.now(datetime.UTC).date())


def main(suite: str, *command: str) -> int:
    if has_its_turn(suite):
        return subprocess.call(command)
    sys.stdout.write(f"{suite}: another run's turn\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
