"""The reference has every public name, every method of a board, and every error."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import jobboard
import jobboard.aio
from jobboard import EventKind, JobBoard, errors
from jobboard.console import mending
from jobboard.fetching import _BOARD_OPTIONS
from jobboard.operate import verdict
from jobboard.plugins import load_plugin, plugin_names

DOC = Path(__file__).parent.parent / "doc"
REFERENCE = DOC / "reference"


def named(page: str) -> set[str]:
    return set(re.findall(r"auto\w+:: (\S+)", (REFERENCE / page).read_text()))


def test_every_public_name_is_in_the_interface() -> None:
    of_errors = {name for name in dir(jobboard) if inspect.getmodule(getattr(jobboard, name)) is errors}
    assert {f"jobboard.{name}" for name in set(dir(jobboard)) - of_errors} - named("interface.rst") == set()
    assert {f"jobboard.aio.{name}" for name in jobboard.aio.__all__} - named("interface.rst") == set()


def test_every_method_of_a_board_is_in_the_interface() -> None:
    public = {f"jobboard.JobBoard.{name}" for name in dir(JobBoard) if not name.startswith("_")}
    assert public - named("interface.rst") == set()


def test_every_error_has_its_cause_and_its_cure() -> None:
    listed = set(re.findall(r"^   \* - ``(\w+)``$", (REFERENCE / "errors.rst").read_text(), re.MULTILINE))
    raised = {
        name for name, kind in vars(errors).items() if inspect.isclass(kind) and kind.__module__ == errors.__name__
    }
    assert listed == raised - {"JobBoardError"}


def test_every_event_is_explained() -> None:
    rows = re.findall(r"^   \* - (``.*)$", (REFERENCE / "events.rst").read_text(), re.MULTILINE)
    assert {kind for row in rows for kind in re.findall(r"``(\w+)``", row)} == {kind.value for kind in EventKind}


def test_every_finding_of_the_status_is_in_the_guide_for_operators_and_in_the_console() -> None:
    listed = re.findall(r"^``(\w+)`` +(?:bad|attention) ", (DOC / "guides/operators.rst").read_text(), re.MULTILINE)
    assert set(listed) == set(re.findall(r'Finding\([^"]+"(\w+)"', inspect.getsource(verdict)))
    assert set(listed) - set(mending.PAGES) == {"store"}


@pytest.mark.parametrize(
    "word",
    [
        "worker",
        "dead letters",
        "queue",
        "arguments",
        "cron",
        "debounce",
        "fan-in",
        "workflow",
        "tenant",
        "rate limit",
        "exactly once",
        "throttle",
        "task",
        "lease",
        "retry",
    ],
)
def test_the_glossary_leads_from_a_word_of_the_field_to_ours_and_back(word: str) -> None:
    theirs, ours = (REFERENCE / "glossary.rst").read_text().split("\nOur words\n")
    assert word in " ".join(re.findall(r"^   \* - (.*)$", theirs, re.MULTILINE))
    assert word in " ".join(re.findall(r"^   \* - .*\n     - (.*)$", ours, re.MULTILINE))


@pytest.mark.parametrize("scheme", plugin_names("jobboard.backends"))
def test_every_option_of_a_store_is_on_its_page(scheme: str) -> None:
    kind = load_plugin("jobboard.backends", scheme)
    folder = kind.__module__.removeprefix("jobboard.backends.").removeprefix("sql.").partition(".")[0]
    page = (DOC / f"backends/{folder}.rst").read_text()
    assert [option for option in kind.options if f"``{option}``" not in page] == []


def test_every_option_of_a_board_is_in_the_guide() -> None:
    guide = (DOC / "guides/producers.rst").read_text()
    assert [option for option in _BOARD_OPTIONS if f"\n``{option}``" not in guide] == []
