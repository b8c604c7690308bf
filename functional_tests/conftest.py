"""What the functional tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from pytest_timeout import Settings
from servers.certificates import make_certificates
from turns import leave_out_what_others_take, skip_what_others_take
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ("collected_tests", "jobboard.testing.counting")

# A run under nohup ignores SIGHUP, and one in the background of a script SIGINT: so would all programs that the tests
# start.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

#: In seconds; what takes longest is the end of histories.
TEARDOWN = 120.0

Start = Callable[..., subprocess.Popen[str]]

#: The suites that take longest for their number of tests, since they wait and start processes. They begin first, so
#: that at the end no worker is left alone with one of them. Those of ``WHOLE`` start many processes, and stand apart.
LONGEST = (
    "test_histories", "test_lanes_killed_owners", "test_lanes_fair_shares", "test_conductor_processes",
    "test_command_line_everywhere", "test_conductor_phases", "test_demo",
    "test_schedulers", "test_lifecycle_differential", "test_stepped_clocks", "test_console_browser",
    "test_exactly_once", "test_two_versions", "test_console_nights", "test_operators_nights",
    "test_sql_servers_locks", "test_restored_backups", "test_planted_mutants", "test_boards_listed",
    "test_sql_servers_plans",
)  # fmt: skip
STORES = {"memory", "sqlite", "redis", "redis+cluster", "etcd", "zookeeper", "postgresql", "mariadb"}
#: All stores beside each other.
WHOLE = ("test_histories.py", "test_two_versions.py")


def store_of(nodeid: str) -> str:
    """Return which store a test is about; empty if its parameters name none."""
    parameters = nodeid.partition("[")[2]
    return next((name for name in parameters.rstrip("]").split("-") if name in STORES), "")


def part_of(nodeid: str) -> str:
    """Return what one worker runs as a whole: the tests of a suite about one store, which share its server."""
    suite, store = nodeid.partition("[")[0].rpartition("::")[0], store_of(nodeid)
    return suite if suite.endswith(WHOLE) else f"{suite} {store}"


class PartScheduling(LoadScopeScheduling):
    """Gives each worker parts of suites."""

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> PartScheduling | None:
    """Serve ``--dist loadscope``."""
    return PartScheduling(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "in_turn(count): on CI, a run takes so many of the suite's stores")
    config.addinivalue_line("markers", "turn_of(suite): on CI, a run takes it or another one of its group")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the parts into the order in which ``--dist loadscope --no-loadscope-reorder`` begins them.

    What other runs of CI take is left out (``.ci/turns.py``).
    """
    leave_out_what_others_take(config, items)
    skip_what_others_take(items, store_of)
    sizes = Counter(part_of(item.nodeid) for item in items)
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (places.get(item.path.stem, len(LONGEST)), -sizes[part_of(item.nodeid)]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, object]:
    """Give each teardown a time limit: pytest-timeout gives it none after a test that failed."""
    item.ihook.pytest_timeout_set_timer(item=item, settings=Settings(TEARDOWN, "signal", False, False))
    return (yield)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, and with certificates of a server and of clients."""
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where a board is that several processes share, without a server."""
    return f"sqlite:///{tmp_path}/jobs.db"


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
