"""Clients of the commit before work beside ours on each store, and no promise is broken."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from histories.running import Running
from layouts.earlier import BEFORE, OF_LAYOUT, unpack
from turns import taken

from jobboard.backends.layout import LAYOUT
from jobboard.backends.sql.schema import VERSION

SECONDS = 10.0
SEED = os.environ.get("JOBBOARD_HISTORY_SEED", str(random.randrange(10**6)))
STORES = taken("two versions", ["sqlite", "redis", "zookeeper", "etcd", "postgresql", "mariadb"], 2)
#: What a history takes beside its work.
BESIDE = 400.0


def numbers_of(code: Path) -> list[int]:
    """Return the number of the layout, and the version of the schema, that other code has."""
    texts = [(code / "jobboard" / "backends" / file).read_text() for file in ("layout.py", "sql/schema.py")]
    found = [re.search(r"^(?:LAYOUT|VERSION) = (\d+)$", text, re.MULTILINE) for text in texts]
    return [int(match[1]) for match in found if match]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    code = unpack(BEFORE, tmp_path_factory.mktemp("code"))
    if numbers_of(code) != [LAYOUT, VERSION]:
        pytest.skip(f"{BEFORE} has another layout, so each refuses the other's board: layouts/test_two_layouts.py")
    options = ("--rate", "12", "--beside", str(code))
    running = {store: Running(store, tmp_path_factory.mktemp(store), SECONDS, SEED, *options) for store in STORES}
    yield running
    for history in running.values():
        history.stop()


@pytest.mark.timeout(SECONDS + BESIDE)
@pytest.mark.parametrize("store", STORES)
def test_the_commit_before_works_beside_ours(histories: dict[str, Running], store: str) -> None:
    status, output = histories[store].wait()
    assert status == 0, output[-5000:]


def test_each_earlier_layout_has_a_commit() -> None:
    assert set(OF_LAYOUT) == set(range(1, LAYOUT))
