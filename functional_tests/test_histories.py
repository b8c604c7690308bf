"""A short random history under faults on each store; all run beside each other, since they mostly wait.

``JOBBOARD_HISTORY_SECONDS`` says how long they work, ``JOBBOARD_HISTORY_SEED`` by which seed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SECONDS = float(os.environ.get("JOBBOARD_HISTORY_SECONDS", "50"))
SEED = os.environ.get("JOBBOARD_HISTORY_SEED", str(random.randrange(10**6)))
STORES = ["memory", "sqlite", "redis", "zookeeper", "etcd", "postgresql", "mariadb"]

#: What a history takes beside its work: the start, and the rest until a store has forgotten what has ended.
BESIDE = 400.0


class Running:
    """A history that is being made."""

    def __init__(self, store: str, folder: Path) -> None:
        self._output = folder / "output"
        command = [sys.executable, "-m", "functional_tests.histories", "--store", store, "--seed", SEED]
        command += ["--minutes", str(SECONDS / 60), "--rate", "6", "--keep", str(folder)]
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                command, cwd=Path(__file__).parent.parent, stdout=output, stderr=subprocess.STDOUT
            )

    def wait(self) -> tuple[int, str]:
        """Return its status and what it said."""
        return self._process.wait(), self._output.read_text()

    def stop(self) -> None:
        if self._process.poll() is None:
            # It stops its servers and processes by itself.
            self._process.send_signal(signal.SIGINT)
            self._process.wait()


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    running = {store: Running(store, tmp_path_factory.mktemp(store)) for store in STORES}
    yield running
    for history in running.values():
        history.stop()


@pytest.mark.timeout(SECONDS + BESIDE)
@pytest.mark.parametrize("store", STORES)
def test_a_history_under_faults_breaks_no_promise(histories: dict[str, Running], store: str) -> None:
    status, output = histories[store].wait()
    assert status == 0, output[-5000:]
