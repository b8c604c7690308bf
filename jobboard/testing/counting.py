"""A pytest plugin that holds the number of executed contract cases against what the test module says.

A case that vanished, that was skipped for another reason than a capability, or that never ran would go unseen
otherwise. Nothing is checked when only a part was asked for (``-k``, ``-m``, ``file::case``, ``--lf``, ``-x``, ...).
Works under pytest-xdist: every report carries what is needed to the one process that sums up.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Generator, Iterable
from typing import Any

import pytest

from jobboard.testing.contract import Counted

_NOTE = "contract"
_NEEDS = "needs "

#: What users type to run a part only.
_PARTIAL_OPTIONS = ("keyword", "markexpr", "deselect", "lf", "stepwise", "maxfail", "collectonly")


def count_cases(topic: type, **needs: object) -> int:
    """Return how many cases a class has, with every set of parameters counted.

    :param needs: only those that need these capabilities.
    """
    return sum(
        _count_parameters(case)
        for name, case in inspect.getmembers(topic, inspect.isfunction)
        if name.startswith("test_") and needs.items() <= getattr(case, "needs", {}).items()
    )


def _count_parameters(case: Any) -> int:
    count = 1
    for mark in getattr(case, "pytestmark", []):
        if mark.name == "parametrize":
            count *= len(list(mark.args[1]))
    return count


class ExecutedCases:
    """Sums up what ran, by test class."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._collected: Counter[type[Counted]] = Counter()
        self._executed: Counter[str] = Counter()
        self._expected: dict[str, int] = {}
        self._problems: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            case_class = _contract_class_of(item)
            if case_class is not None:
                self._collected[case_class] += 1
        if self._is_partial():
            return
        for case_class, count in self._collected.items():
            if count != case_class.all_cases:
                name = case_class.__qualname__
                problem = f"{name} has {count} cases of the contract's {case_class.all_cases}"
                # pytest-xdist hands a report over; what a worker raises here ends it without a word.
                report = pytest.CollectReport(nodeid=name, outcome="failed", longrepr=problem, result=[])
                session.config.hook.pytest_collectreport(report=report)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        case_class = _contract_class_of(item)
        if case_class is not None and not self._is_partial():
            name = f"{case_class.__module__}.{case_class.__qualname__}"
            report.user_properties.append((_NOTE, [name, case_class.executed_cases]))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, expected in _notes_of(report):
            self._expected[name] = expected
            if report.when == "call" and not report.skipped:
                self._executed[name] += 1
            elif report.skipped and _NEEDS not in str(report.longrepr):
                self._problems.append(f"{report.nodeid} was skipped for another reason than a capability")
            return

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.shouldstop or session.shouldfail or hasattr(self._config, "workerinput"):
            return
        for name, expected in self._expected.items():
            if self._executed[name] != expected:
                self._problems.append(f"{name} executed {self._executed[name]} cases; it says {expected}")
        if self._problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for name, expected in sorted(self._expected.items()):
            terminalreporter.write_line(f"contract: {name} executed {self._executed[name]} of {expected} cases")
        for problem in self._problems:
            terminalreporter.write_line(f"contract: {problem}", red=True)

    def _is_partial(self) -> bool:
        options = self._config.option
        return any(getattr(options, name, None) for name in _PARTIAL_OPTIONS) or any(
            "::" in argument for argument in self._config.args
        )


def _contract_class_of(item: pytest.Item) -> type[Counted] | None:
    case_class = getattr(item, "cls", None)
    return case_class if isinstance(case_class, type) and issubclass(case_class, Counted) else None


def _notes_of(report: pytest.TestReport) -> Iterable[tuple[str, int]]:
    return [value for name, value in report.user_properties if name == _NOTE]  # type: ignore[misc]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ExecutedCases(config), "jobboard-executed-cases")
