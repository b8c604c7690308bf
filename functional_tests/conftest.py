"""What the functional tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest_plugins = ("jobboard.testing.counting",)

Start = Callable[..., subprocess.Popen[str]]

#: One failure in these is a promise broken, and counts at once: they draw by chance what they do.
PROOFS = {"test_histories", "test_lifecycle_differential", "test_schedulers", "test_state_machines"}

#: How many tests of one run may need a second try (``--reruns 1``), as a machine may be slow for a moment.
MAX_SECOND_TRIES = 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.hasplugin("rerunfailures"):
        for item in items:
            if item.path.stem in PROOFS:
                item.add_marker(pytest.mark.flaky(reruns=0))


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    again = {report.nodeid for report in reporter.stats.get("rerun", ())} if reporter else set()
    if len(again) > MAX_SECOND_TRIES:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes of the command line that end with the test, whatever state they are in."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **options: object) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        process = subprocess.Popen(
            [sys.executable, "-m", "jobboard", *arguments],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate()
