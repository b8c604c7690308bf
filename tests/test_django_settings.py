"""Where the board is, by Django's settings; what `manage.py check` says of them; `manage.py jobboard`."""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command, execute_from_command_line
from django.db.utils import ConnectionHandler
from django.test import modify_settings, override_settings
from django_site import tasks, tasks_setting
from helpers.django_fixtures import backend, board, migrated, site
from helpers.forks import FORKS, in_child

from jobboard import BoardUnavailable, JobBoard, fetch
from jobboard.contrib.django import JobBoardBackend, task_handlers, use_board
from jobboard.contrib.django import board as board_of_settings
from jobboard.contrib.django.compat import TASKS_APP, task_backends
from jobboard.contrib.django.site import Site, close_boards
from jobboard.testing import memory_board

__all__ = ["backend", "board", "migrated"]


@pytest.mark.parametrize(
    ("database", "options", "expected"),
    [
        (
            {"ENGINE": "postgresql", "NAME": "shop", "USER": "me", "PASSWORD": "p@", "HOST": "db", "PORT": "5433"},
            {"retention": 60},
            "postgresql path=/shop username=me password=p@ host=db port=5433 retention=60",
        ),
        (
            {"ENGINE": "postgresql", "NAME": "shop", "OPTIONS": {"sslmode": "require", "pool": False}},
            {},
            "postgresql path=/shop tls_unverified=True",
        ),
        (
            {"ENGINE": "postgresql", "NAME": "shop", "OPTIONS": {"sslmode": "prefer", "service": "shop"}},
            {},
            "postgresql path=/shop service=shop",
        ),
        (
            {"ENGINE": "postgresql", "NAME": "shop", "OPTIONS": {"sslmode": "verify-full", "sslrootcert": "ca.pem"}},
            {},
            "postgresql path=/shop sslmode=verify-full sslrootcert=ca.pem",
        ),
        ({"ENGINE": "sqlite3", "NAME": "/var/shop.db"}, {}, "sqlite path=//var/shop.db"),
        ({"ENGINE": "sqlite3", "NAME": ":memory:"}, {"retention": 60}, "memory retention=60"),
        ({"ENGINE": "dummy"}, {"uri": "redis://cache"}, "redis://cache"),
    ],
)
def test_the_place_of_a_board_is_that_of_the_database(
    monkeypatch: pytest.MonkeyPatch, database: dict[str, Any], options: dict[str, Any], expected: str
) -> None:
    database = {**database, "ENGINE": f"django.db.backends.{database['ENGINE']}"}
    monkeypatch.setattr("jobboard.contrib.django.site.connections", ConnectionHandler({"default": database}))
    kind, *parts = expected.split()
    found = Site(options)
    assert {name: str(value) for name, value in found.conf.items()} == {
        "board": kind,
        **dict(part.split("=", 1) for part in parts),
    }
    assert found.is_in_database == (kind in ("postgresql", "sqlite"))
    fetch(found.name, found.conf)


def test_a_database_that_can_hold_no_board_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.dummy"}})
    monkeypatch.setattr("jobboard.contrib.django.site.connections", handler)
    with pytest.raises(ImproperlyConfigured, match=r"django\.db\.backends\.dummy.*OPTIONS\['uri'\]"):
        _ = Site({}).conf


def messages() -> list[str]:
    return [message.id for message in run_checks() if message.id.startswith("jobboard")]


def test_sound_settings_pass_the_checks(migrated: None) -> None:
    with site():
        assert messages() == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"database": "missing"}, ["jobboard.E002"]),
        ({"uri": "unheard://of"}, ["jobboard.E002"]),
        ({"uri": "postgresql://db/shop", "nonsense": 1}, ["jobboard.E002"]),
        ({"max_attempts": 0}, ["jobboard.E002"]),
        ({"TASKS": {"django_site.tasks.ad": {"timeout": 1}}}, ["jobboard.E002"]),
        ({"TASKS": {"django_site.tasks.add": {"timeout": 0}}}, ["jobboard.E002"]),
        ({"TASKS": {"django_site.tasks.add": {"lane": "a"}}}, ["jobboard.E002"]),
        ({"TASKS": {"django_site.tasks.add": 7}}, ["jobboard.E002"]),
        ({"TASKS": ["django_site.tasks.add"]}, ["jobboard.E002"]),
        ({"modules": ["django_site.missing"]}, ["jobboard.E002"]),
        ({"modules": ["antigravity"]}, ["jobboard.E002"]),
        ({"modules": "django_site.further"}, ["jobboard.E002"]),
        ({"name": ""}, ["jobboard.E002"]),
        ({"uri": "memory://"}, ["jobboard.W002"]),
    ],
)
def test_unsound_settings_are_found(options: dict[str, Any], expected: list[str]) -> None:
    with override_settings(TASKS=tasks_setting(**options)):
        assert messages() == expected


def test_an_app_that_is_missing_is_found() -> None:
    with modify_settings(INSTALLED_APPS={"remove": "jobboard.contrib.django"}):
        assert [message.id for message in task_backends["default"].check()] == ["jobboard.W001"]


@pytest.mark.skipif(TASKS_APP is None, reason="Django's own tasks need no app")
def test_the_app_of_the_backport_is_missing() -> None:
    with modify_settings(INSTALLED_APPS={"remove": TASKS_APP}):
        assert "jobboard.E001" in messages()


def test_transactions_of_sqlite_should_lock_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}})
    monkeypatch.setattr("jobboard.contrib.django.site.connections", handler)
    assert messages() == ["jobboard.W003"]


@pytest.mark.parametrize(
    ("name", "expected"), [("file:memorydb_default?mode=memory&cache=shared", []), (":memory:", ["jobboard.W002"])]
)
def test_a_board_in_the_memory_of_a_test_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, name: str, expected: list[str]
) -> None:
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": name}})
    monkeypatch.setattr("jobboard.contrib.django.site.connections", handler)
    assert messages() == expected


def test_migrate_makes_the_tables(migrated: None) -> None:
    with site(create=False) as backend:
        with pytest.raises(Exception, match="no board"):
            backend.site.board()
        call_command("migrate", verbosity=0, database="other")
        with pytest.raises(Exception, match="no board"):
            backend.site.board()
        call_command("migrate", verbosity=0)
        assert backend.site.board().job_count == 0


@FORKS
def test_code_gets_the_board_of_the_settings(migrated: None) -> None:
    with site() as backend:
        found = board_of_settings()
        assert found is board_of_settings("default") is backend.site.board()
        found.post("first")

        def post() -> None:
            board_of_settings().post("second")
            assert board_of_settings().job_count == 2

        assert in_child(post) == 0
        assert board_of_settings().job_count == 2


def test_the_board_of_a_backend_that_is_missing_says_what_to_set() -> None:
    with pytest.raises(ImproperlyConfigured, match="TASKS has no backend 'mail'; it has default"):
        board_of_settings("mail")
    with (
        override_settings(TASKS={"default": {"BACKEND": _IMMEDIATE}}),
        pytest.raises(ImproperlyConfigured, match="set in the settings: TASKS = "),
    ):
        board_of_settings()


def test_a_test_uses_another_board(migrated: None) -> None:
    with site() as backend, memory_board() as scratch:
        with use_board(scratch) as used:
            assert board_of_settings() is used is scratch
            result = tasks.add.enqueue(1)
            assert scratch.get(result.id)
        assert board_of_settings() is backend.site.board() is not scratch


def test_another_backend_is_refused() -> None:
    with (
        override_settings(TASKS={"default": {"BACKEND": _IMMEDIATE}}),
        pytest.raises(ImproperlyConfigured, match="'default' is no JobBoardBackend"),
    ):
        task_handlers()


_IMMEDIATE = f"{'django.tasks' if TASKS_APP is None else TASKS_APP}.backends.immediate.ImmediateBackend"


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", "jobboard", *arguments])
    return int(ended.value.code or 0)


def test_the_command_knows_the_board(
    backend: JobBoardBackend, board: JobBoard, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOBBOARD_URI", "redis://nowhere.invalid")
    monkeypatch.setenv("JOBBOARD_NAME", "another")
    result = tasks.add.enqueue(1)
    assert command("--json", "ls") == 0
    assert command("ls", "--json") == 0
    listed = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert str(listed).count(result.id) == 2
    assert command("cancel", result.id, "--yes", "--settings", "django_site", "--pythonpath=.") == 0
    assert board.job_count == 0
    assert command("cancel", result.id, "--yes") == 1
    assert command("nonsense") == 2
    assert command("--help") == 0
    assert "conductor" in capfd.readouterr().out
    call_command("jobboard", "ls")
    with pytest.raises(CommandError):
        call_command("jobboard", "purge", result.id)


def test_the_command_works_on_another_backend(migrated: None, capfd: pytest.CaptureFixture[str]) -> None:
    two = {alias: {**tasks_setting(name=f"test-{alias}-{uuid.uuid4()}")["default"]} for alias in ("a b", "mail")}
    dummy = "django_tasks.backends.dummy.DummyBackend" if TASKS_APP else "django.tasks.backends.dummy.DummyBackend"
    with override_settings(TASKS={"default": {"BACKEND": dummy}, **two}):
        results = {alias: tasks.add.using(backend=alias).enqueue(1, right=2) for alias in two}
        for alias, result in results.items():
            assert command("--backend", alias, "ls", "--json") == 0
            assert [job["uuid"] for job in json.loads(capfd.readouterr().out)] == [result.id]
        assert command("--backend", "none", "ls") == 2
        assert "TASKS has no backend 'none'; it has default, a b, mail" in capfd.readouterr().err
        close_boards()


def test_the_command_says_what_the_settings_lack(capfd: pytest.CaptureFixture[str]) -> None:
    dummy = "django_tasks.backends.dummy.DummyBackend" if TASKS_APP else "django.tasks.backends.dummy.DummyBackend"
    with override_settings(TASKS={"default": {"BACKEND": dummy}}):
        assert command("ls") == 2
    error = capfd.readouterr().err
    assert error.startswith("jobboard: the task backend 'default' is no JobBoardBackend; set in the settings: TASKS = ")


def test_the_command_says_which_package_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "click", None)
    monkeypatch.delitem(sys.modules, "jobboard.contrib.django.command_line", raising=False)
    assert command("ls") == 2
    assert capfd.readouterr().err == "jobboard: the command line needs click: pip install 'jobboard[cli]'\n"


def test_a_store_that_is_away_is_told(migrated: None) -> None:
    with site(uri="redis://127.0.0.1:1") as backend, pytest.raises(BoardUnavailable):
        tasks.add.enqueue(1)
    assert backend.site.name.startswith("test-")
