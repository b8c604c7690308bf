"""The contract is whole: nothing public is left out of it, and it cannot shrink unseen."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import pytest
from helpers.embedded import MemoryHarness

from jobboard import JobBoard, Schedules
from jobboard.backends.address import Address
from jobboard.backends.base import READS, Backend, Waiter
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.memory.backend import MemoryBackend
from jobboard.backends.roles import ROLES, JobStore, name_of
from jobboard.backends.sql.backend import Operations
from jobboard.backends.zookeeper import ZooKeeperBackend
from jobboard.board.limits import Limits
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.schedules.firing import Firing
from jobboard.testing import CONTRACT_CASES, DEPLOYMENT_CASES, Contract, DeploymentContract
from jobboard.testing.contract import edge_retries, lifecycle, limit_rules, limits, retries, schedules
from jobboard.testing.contract.case import Case
from jobboard.testing.contract.edge_case import EdgeCase
from jobboard.testing.counting import count_cases

pytest_plugins = ("pytester",)

#: Public names of a board that ask nothing of the store, or for which closed is no error.
QUIET = {"name", "store", "connected", "connect", "close", "capabilities", "migrate", "statements_of_migration"}


@pytest.mark.parametrize(("suite", "cases"), [(Contract, CONTRACT_CASES), (DeploymentContract, DEPLOYMENT_CASES)])
def test_a_suite_has_as_many_cases_as_it_says(suite: type, cases: int) -> None:
    assert count_cases(suite) == cases
    assert sum(count_cases(topic) for topic in suite.__bases__) == cases


def test_every_case_about_edges_needs_them() -> None:
    topics = [topic for topic in Contract.__bases__ if issubclass(topic, EdgeCase)]
    cases = {name: case for topic in topics for name, case in vars(topic).items() if name.startswith("test_")}
    assert {name for name, case in cases.items() if getattr(case, "needs", {}).get("edges") is not True} == set()


def test_a_further_deployment_runs_nothing_that_is_not_in_the_contract() -> None:
    assert set(DeploymentContract.__bases__) < set(Contract.__bases__)


def test_every_public_call_of_a_board_is_tried_after_a_close() -> None:
    public = {name for name in dir(JobBoard) if not name.startswith("_")} - QUIET - {"schedules", "limits"}
    assert public - set(lifecycle.CALLS) == set()


def test_every_public_call_of_schedules_is_tried_after_a_close() -> None:
    public = {name for kind in (Schedules, Firing) for name in dir(kind) if not name.startswith("_")}
    assert set(schedules.CALLS) == public - {"most_of", "live_among", "progress_now", "step_of_resume"}


def test_every_public_call_of_limits_is_tried_after_a_close() -> None:
    assert set(limit_rules.CALLS) == {name for name in dir(Limits) if not name.startswith("_")} | {"iter"}


def test_every_mutation_of_the_seam_loses_a_reply() -> None:
    source = "".join(map(inspect.getsource, (retries, schedules, limits, edge_retries)))
    reads = {
        "open", "close", "connected", "now", "refresh", "waiter", "listen", "claimable", "claimed_under", "outlook",
        "maintenance.tidy", "maintenance.audit", "maintenance.holders", "maintenance.pauses",
        "maintenance.server_version", "books.load", "books.page", "limits.all", "limits.lane", "limits.longest",
        "edges.parents", "edges.children", "edges.first_children", "edges.first_parents",
        "edges.counts", "edges.graphs", "edges.dropped", "steps.load", "steps.signals",
    }  # fmt: skip
    of_roles = {name_of(name, method) for name, role in ROLES.items() for method in role.__abstractmethods__}
    primitives = Backend.__abstractmethods__ | of_roles
    assert {name for name in primitives - reads if f'"{name}"' not in source} == set()


JOINED: dict[str, Callable[[], object]] = {
    "memory": lambda: MemoryBackend("thumbnails", Address("memory")).jobs,
    "etcd": lambda: EtcdBackend("thumbnails", Address("etcd")).jobs,
    "zookeeper": lambda: ZooKeeperBackend("thumbnails", Address("zookeeper"))._in_roles["jobs"],
    "sql": lambda: Operations(cast(Any, None)).jobs,
}


@pytest.mark.parametrize("store", JOINED)
def test_what_several_classes_carry_out_takes_the_arguments_of_the_seam(store: str) -> None:
    """``join_jobs`` hides from mypy whether a method is that of the seam."""
    joined = JOINED[store]()
    for name in JobStore.__abstractmethods__:
        _, *wanted = inspect.signature(getattr(JobStore, name)).parameters.values()
        found = list(inspect.signature(getattr(joined, name)).parameters.values())
        assert [(each.kind, each.default) for each in found] == [(each.kind, each.default) for each in wanted], name


def test_what_is_no_read_may_change_something() -> None:
    """A primitive that is added without a decision is taken for a change: its lost replies are of unknown effect."""
    primitives = {name for role in ROLES.values() for name in role.__abstractmethods__}
    changes = {
        "abandon", "audit", "cancel", "checkpoint", "claim", "claim_next", "claimed_under", "consume", "destroy",
        "drop", "extend", "finish", "link", "look", "pause", "post", "purge", "put", "release", "remove",
        "reprioritize", "resolve", "restore", "resume", "run_now", "save", "seal", "signal", "step", "tidy", "trash",
    }  # fmt: skip
    assert primitives - READS == changes
    assert {name for name in READS if not hasattr(Backend, name)} <= primitives | set(Waiter.__abstractmethods__)


def test_two_cases_of_one_name_are_refused() -> None:
    class One(Case):
        def test_it(self) -> None: ...

    with pytest.raises(TypeError, match="two cases test_it"):

        class Two(One):
            def test_it(self) -> None: ...


def test_a_lossy_backend_loses_what_it_is_told_to() -> None:
    with MemoryHarness() as harness:
        board, lossy = harness.lossy_board(patience=0.0)
        for fault, posted in (("request", 0), ("reply", 1), ("refused", 1)):
            lossy.lose("post", fault)  # type: ignore[arg-type]
            assert lossy.armed
            with pytest.raises(BoardUnavailable) as caught:
                board.post("resize")
            assert isinstance(caught.value, ReplyLost) == (fault != "refused")
            assert (lossy.armed, board.job_count) == (False, posted)
        for unknown in ("no such primitive", "schedules.post", "nobody.post"):
            with pytest.raises(LookupError):
                lossy.lose(unknown)


def test_a_backend_without_one_of_its_roles_is_refused() -> None:
    backend = MemoryBackend("thumbnails", Address("memory"))
    del backend.books
    with pytest.raises(TypeError, match=r"MemoryBackend\.books must be a BookStore"):
        JobBoard("thumbnails", backend)


SUITE = """
    import pytest
    from jobboard.testing.contract import Counted
    from jobboard.testing.contract.case import Case

    class TestSmall(Case, Counted):
        all_cases = {collected}
        executed_cases = {expected}

        @pytest.fixture
        def harness(self):
            return None

        def test_one(self):
            pass

        def test_two(self):
            pytest.skip({reason!r})
"""


def test_the_workers_of_xdist_say_that_a_case_is_missing(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the plugins that it does not need it takes a fraction of the time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_small=SUITE.format(collected=3, expected=1, reason="needs processes=True"))
    result = pytester.runpytest_subprocess("-p", "xdist", "-p", "jobboard.testing.counting", "-n", "1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*TestSmall has 2 cases of the contract's 3*"])


@pytest.mark.parametrize(
    ("expected", "reason", "collected", "arguments", "says"),
    [
        (1, "needs processes=True", 2, [], None),
        (2, "needs processes=True", 2, [], "executed 1 cases; it says 2"),
        (1, "too slow", 2, [], "skipped for another reason"),
        (1, "needs processes=True", 3, [], "has 2 cases of the contract's 3"),
        (2, "needs processes=True", 3, ["-k", "one"], None),
        (2, "too slow", 3, ["test_small.py::TestSmall::test_two"], None),
    ],
)
def test_a_suite_that_shrank_fails(
    pytester: pytest.Pytester,
    expected: int,
    reason: str,
    collected: int,
    arguments: list[str],
    says: str | None,
) -> None:
    pytester.makepyfile(test_small=SUITE.format(collected=collected, expected=expected, reason=reason))
    result = pytester.runpytest_inprocess(
        "-p", "jobboard.testing.counting", "-p", "no:hypothesispytest", "-p", "no:xdist", *arguments
    )
    if says is None:
        assert result.ret == pytest.ExitCode.OK
    else:
        assert result.ret != pytest.ExitCode.OK
        assert says in result.stdout.str() + result.stderr.str()
