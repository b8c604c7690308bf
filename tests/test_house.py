"""The house rules that a machine can hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [
    path
    for folder in ("jobboard", "lua", "tests", "functional_tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
]


def test_a_file_has_one_role_and_about_400_lines_at_most() -> None:
    assert {str(path.relative_to(ROOT)) for path in SOURCES if len(path.read_text().splitlines()) > 450} == set()


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "util", "common", "helpers", "misc"}
    helpers_of_tests = ROOT / "tests" / "helpers"
    assert [
        path
        for path in SOURCES
        if path.parent != helpers_of_tests and drawers & set(path.relative_to(ROOT).with_suffix("").parts)
    ] == []


@pytest.mark.parametrize("folder", ["tests", "functional_tests"])
def test_no_two_plugins_of_tests_have_a_fixture_of_one_name(folder: str) -> None:
    """The fixtures of a plugin that one file names are those of all files; of one name the last one serves all."""
    named = re.findall(r'^pytest_plugins = \(?"([\w.]+)"', _text_of_all(ROOT / folder), re.MULTILINE)
    files = {ROOT / folder / f"{name.replace('.', '/')}.py" for name in named}
    fixtures = [
        name
        for file in files
        if file.exists()
        for name in re.findall(r"^@pytest\.fixture.*\ndef (\w+)", file.read_text(), re.MULTILINE)
    ]
    assert len(fixtures) > 1
    assert sorted(fixtures) == sorted(set(fixtures))


def _text_of_all(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("*.py")))


def test_nothing_is_pickled_from_the_wire() -> None:
    """Workers of the process executor get plain data and functions from their own parent by multiprocessing."""
    wire = [path for path in SOURCES if "jobboard/backends" in str(path) or "jobboard/board" in str(path)]
    assert [path for path in wire if "pickle" in path.read_text().replace("never pickle", "")] == []


#: Every ``while`` of these backends with what ends it, which is known before it begins. A ``while`` whose end the store
#: decides can't join the list: it becomes a ``for`` over a range.
LOOPS = {
    "redis": {
        "backend.py: while not self._is_prepared(deadline)": "a deadline",
        "boards.py: while not is_time_over()": "the time of the call",
        "client.py: while True": "a deadline",
        "subscriber.py: while not self._closed": "a thread, which pauses after each failure and waits for each message",
    },
    "etcd": {
        "books.py: while True": "a deadline",
        "claiming.py: while True": "a deadline",
        "claiming.py: while len(claimed) < limit": "a deadline",
        "connection.py: while not is_time_over()": "the time of the call",
        "edge_store.py: while True": "a deadline",
        "expiry.py: while True": "a deadline",
        "http_client.py: while True": "the attempts of one request, which have a deadline",
        "http_exchange.py: while (line := _line(stream))": "the deadline of the reply",
        "http_exchange.py: while (size := _size(_line(stream).partition(';')[0], 16))": "the deadline of the reply",
        "leftovers.py: while rest": "a deadline",
        "limits.py: while (rest := self._uncounted(name))": "a deadline",
        "limits.py: while True": "a deadline",
        "limits.py: while start is not None": "each turn passes some lanes",
        "posting.py: while True": "a deadline",
        "ready_queue.py: while len(jobs) < count": "a deadline",
        "schedules.py: while (verdict := self._take(step, tries)) is None": "a deadline",
        "snapshots.py: while True": "the keys of one revision: each page begins behind the last one",
        "steps.py: while True": "a deadline",
        "subscriber.py: while not self._closed": "a thread, which pauses after each failure and waits for each message",
        "worker.py: while (task := self._next()) is not None": "a thread's own, which waits for each task",
        "worker.py: while not self._closed": "a thread's own, which waits for each task",
    },
    "kv": {
        "cache.py: while len(self._content) > self._size": "each turn forgets one",
        "read_modify_write.py: while pending": "a deadline",
    },
    "memory": {
        "store.py: while (first := timers.first()) is not None and first[0] <= now": "each turn moves one that is due",
        "store.py: while count < limit and self.remembered and (self.remembered[0][0] <= now)": "the limit",
        "store.py: while self.retained and self.retained[0][0] <= now": "each turn takes one out",
        "subscriptions.py: while self._listeners": "each turn takes one out",
        "subscriptions.py: while self._waiters": "each turn takes one out",
    },
    "shards": {
        "waiter.py: while self._waiters": "each turn takes one out",
        "waiter.py: while (left := (deadline - time.monotonic())) > 0": "a deadline, or the wait's own time",
    },
    "zookeeper": {
        "books.py: while bucket < len(buckets)": "each turn passes some buckets",
        "change_log.py: while self._next < head": "each turn passes some changes, or is the last",
        "creation.py: while not self._is_created(deadline)": "a deadline",
        "kazoo_internals.py: while not self._client._stopped.is_set()": "a client's thread, which pauses each time",
        "listing.py: while item.place in self.by_place": "the number of jobs that are listed",
        "listing.py: while len(found) < limit and self.remembered and (self.remembered[0][0] <= now)": "the limit",
        "listing.py: while self.retained and self.retained[0][0] <= now": "each turn takes one out",
        "limits.py: while (verdict := self._put(row, after)) is None": "a deadline",
        "pauses.py: while not self._is_changed(name, pause)": "a deadline",
        "units.py: while rest": "each turn takes some out",
        "units.py: while rest and transaction.jobs < MAX_JOBS and (transaction.size < MAX_BYTES)": "sizes",
        "requests.py: while True": "the length of the reply",
        "watch_thread.py: while self._is_running() and (not self._is_notified)": "a thread's own, which waits",
        "watch_thread.py: while self._wait()": "a thread's own, which waits",
    },
    "sql": {
        "migration_lock.py: while not try_lock()": "a deadline",
        "server_backend.py: while True": "a deadline, which stands from the first failure on",
        "connection_pool.py: while (place := self._take()).connection is not None": "each turn ends one that broke",
        "change_source.py: while (notify := self._connection.pgconn.notifies()) is not None": "what was received",
        "commit_notifier.py: while (due := self._next_due())": "a thread's own, which waits for each commit",
        "commit_notifier.py: while not (due := self._take())": "a deadline, of a request or of an idle thread",
        "database.py: while True": "a deadline",
        "waiting.py: while (now := time.monotonic()) < deadline and (not self._has_reason())": "a wait's own time",
        "connection.py: while _held": "each turn takes one of the locks away",
        "change_notifier.py: while self._is_wanted()": "a thread's own, which pauses after each look and each failure",
    },
}
#: What would make a ``for`` of one.
ENDLESS = {"count", "cycle", "repeat"}


@pytest.mark.parametrize("backend", sorted(LOOPS))
def test_no_loop_of_a_backend_depends_on_the_store_to_end_it(backend: str) -> None:
    nodes = [
        (path.name, node)
        for path in (ROOT / "jobboard" / "backends" / backend).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
    ]
    loops = {f"{name}: while {ast.unparse(node.test)}" for name, node in nodes if isinstance(node, ast.While)}
    assert loops == set(LOOPS[backend])
    turns = [(name, node.iter) for name, node in nodes if isinstance(node, ast.For | ast.comprehension)]
    assert [(name, over.lineno) for name, over in turns if any(map(_is_endless, ast.walk(over)))] == []


def test_no_loop_of_a_lua_script_goes_on_until_something_happens() -> None:
    """The whole server waits for a script; a ``for`` is counted before it begins."""
    literal = re.compile(r"'[^'\n]*'|--.*")
    assert [
        f"{path.name}: {line}"
        for path in (ROOT / "lua").rglob("*.lua")
        for line in path.read_text().splitlines()
        if re.search(r"\b(while|repeat|goto)\b", literal.sub("", line))
    ] == []


def _is_endless(call: ast.AST) -> bool:
    if not isinstance(call, ast.Call):
        return False
    called = ast.unparse(call.func).removeprefix("itertools.")
    return called in ENDLESS or (called == "iter" and len(call.args) == 2)
