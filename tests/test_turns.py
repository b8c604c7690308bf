"""What CI does in turn is done by some run, and which one can be told."""

from __future__ import annotations

import pytest
from turns import GROUPS, has_its_turn, taken

STORES = ["etcd", "mariadb", "postgresql", "redis", "zookeeper"]


@pytest.fixture(autouse=True)
def on_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("JOBBOARD_ALL_TESTS", raising=False)


def test_each_store_has_its_turn() -> None:
    turns = [taken("histories", STORES, 2, f"content {number}") for number in range(50)]
    assert {len(set(turn)) for turn in turns} == {2}
    assert {store for turn in turns for store in turn} == set(STORES)


def test_the_same_content_takes_the_same_stores() -> None:
    assert taken("histories", STORES, 2) == taken("histories", STORES, 2)
    assert taken("histories", STORES, 2, "a") == taken("histories", STORES, 2, "a")


def test_suites_take_their_turns_apart() -> None:
    assert len({tuple(taken(f"suite {number}", STORES, 2, "a")) for number in range(20)}) > 1


def test_a_run_takes_one_suite_of_each_group() -> None:
    assert [sum(map(has_its_turn, group)) for group in GROUPS] == [1] * len(GROUPS)


@pytest.mark.parametrize(("name", "value"), [("CI", None), ("JOBBOARD_ALL_TESTS", "1")])
def test_all_are_taken(monkeypatch: pytest.MonkeyPatch, name: str, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    assert taken("histories", STORES, 2) == STORES
    assert all(has_its_turn(suite) for group in GROUPS for suite in group)


def test_what_others_take_is_left_out(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import turns
        def pytest_configure(config):
            config.addinivalue_line("markers", "turn_of(suite): of a group")
        def pytest_collection_modifyitems(config, items):
            turns.leave_out_what_others_take(config, items)
        """
    )
    tests = "\n".join(
        f"@pytest.mark.turn_of({suite!r})\ndef test_{number}(): pass" for number, suite in enumerate(GROUPS[0])
    )
    pytester.makepyfile(f"import pytest\n{tests}\ndef test_of_no_group(): pass")
    pytester.runpytest().assert_outcomes(passed=2, deselected=len(GROUPS[0]) - 1)
