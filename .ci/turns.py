"""What CI does in turn: of a suite that does the same on each store, a run takes some of the stores.

``pytestmark = pytest.mark.in_turn(2)`` in a suite: two of its stores, and what is of no store. Which ones follows from
the content of the checkout: a run can be repeated, and the next change has others. All are taken where ``CI`` is not
set, and with ``JOBBOARD_ALL_TESTS=1``.
"""

from __future__ import annotations

import datetime
import functools
import os
import random
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

#: What takes long and seldom fails: a run takes one of these, so that no run takes much longer than others.
LONGEST = ("contract on distributed PostgreSQL", "contract on SQLite shards", "servers that come and go", "clones")


def taken(what: str, some: Sequence[str], count: int, content: str | None = None) -> Sequence[str]:
    """Return so many of some: those that this run takes.

    :param what: what is run; for something else, others are drawn.
    :param content: stands for the content of the checkout.
    """
    if "CI" not in os.environ or os.environ.get("JOBBOARD_ALL_TESTS"):
        return some
    return random.Random(f"{content or _content()} {what}").sample(some, min(count, len(some)))


def is_whole(suite: str) -> bool:
    """Whether this run takes all of one of the ``LONGEST``, of which others take a part or nothing."""
    assert suite in LONGEST
    return suite in taken("what takes longest", LONGEST, 1)


def run_in_turn(suite: str) -> pytest.MarkDecorator:
    """Return a mark for one of the ``LONGEST``."""
    return pytest.mark.skipif(not is_whole(suite), reason="another run's turn")


def skip_what_others_take(items: Iterable[pytest.Item], store_of: Callable[[str], str]) -> None:
    """Skip the tests of those stores that another run takes."""
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
