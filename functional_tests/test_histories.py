"""A short random history under faults on each store; all run beside each other, since they mostly wait.

``JOBBOARD_HISTORY_SECONDS`` says how long they work, ``JOBBOARD_HISTORY_SEED`` by which seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from histories.running import Running
from turns import taken

SECONDS = float(os.environ.get("JOBBOARD_HISTORY_SECONDS", "35"))
SEED = os.environ.get("JOBBOARD_HISTORY_SEED", str(random.randrange(10**6)))
STORES = ["memory", "sqlite", *taken("histories", ["redis", "zookeeper", "etcd", "postgresql", "mariadb"], 3)]

#: What a history takes beside its work: the start, and the rest until a store has forgotten what has ended.
BESIDE = 400.0


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    running = {store: Running(store, tmp_path_factory.mktemp(store), SECONDS, SEED) for store in STORES}
    yield running
    for history in running.values():
        history.stop()


@pytest.mark.timeout(SECONDS + BESIDE)
@pytest.mark.parametrize("store", STORES)
def test_a_history_under_faults_breaks_no_promise(histories: dict[str, Running], store: str) -> None:
    status, output = histories[store].wait()
    assert status == 0, output[-5000:]
