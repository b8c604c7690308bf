"""Runs Django's own tests of tasks with boards in place of its backends, and prints what became of them as JSON.

``SUITE_URI=... python django_suite.py``: where the boards are. Django's source and its tests are on the path.
"""

from __future__ import annotations

import json
import sys
import unittest
from importlib import import_module
from typing import Any

#: The others, ``test_custom_backend``, are about backends that are none of ours.
MODULES = ("test_dummy_backend", "test_immediate_backend", "test_tasks")

IN_DUMMY = "changes a result that the dummy backend keeps in memory; a board's are read anew"
IN_TRANSACTION = "a board gets a task with its transaction, not within it"
IN_CALLER = "the immediate backend runs tasks in the caller; a board's run in a worker, which survives"
HAS_IT = "says what the immediate backend lacks; a board has it"
#: Cases that say what only Django's backends do, and why; they are skipped, and counted.
NOT_APPLICABLE = {
    "DummyBackendTestCase.test_refresh_result": IN_DUMMY,
    "DummyBackendTestCase.test_refresh_result_async": IN_DUMMY,
    "DummyBackendTransactionTestCase.test_doesnt_wait_until_transaction_commit_by_default": IN_TRANSACTION,
    "ImmediateBackendTransactionTestCase.test_doesnt_wait_until_transaction_commit_by_default": IN_TRANSACTION,
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": IN_CALLER,
    "ImmediateBackendTestCase.test_cannot_get_result": HAS_IT,
    "ImmediateBackendTestCase.test_cannot_refresh_result": HAS_IT,
    "ImmediateBackendTestCase.test_cannot_pass_run_after": HAS_IT,
}


def set_up() -> None:
    import django
    from django.conf import settings

    settings.configure(
        SECRET_KEY="suite",
        USE_TZ=True,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["jobboard.contrib.django", "tasks"],
        TASKS={"default": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"}},
    )
    django.setup()


def skip_what_does_not_apply(module: Any) -> list[str]:
    """Skip cases of a module; return those that it has."""
    skipped = []
    for name, reason in NOT_APPLICABLE.items():
        case, _, method = name.partition(".")
        if hasattr(module, case):
            setattr(getattr(module, case), method, unittest.skip(reason)(getattr(getattr(module, case), method)))
            skipped.append(name)
    return skipped


def main() -> None:
    set_up()
    from django.test.utils import setup_databases, setup_test_environment

    from harnesses.django_board_backends import take_their_place

    take_their_place()
    setup_test_environment()
    setup_databases(verbosity=0, interactive=False)
    suite, skipped = unittest.TestSuite(), []
    for name in MODULES:
        module = import_module(f"tasks.{name}")
        skipped += skip_what_does_not_apply(module)
        suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(module))
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=2).run(suite)
    assert sorted(skipped) == sorted(NOT_APPLICABLE), "a case that is skipped is gone"
    failed = [case.id() for case, _ in result.failures + result.errors]
    counts = {"run": result.testsRun - len(result.skipped), "skipped": len(result.skipped), "failed": failed}
    sys.stdout.write(json.dumps(counts))


if __name__ == "__main__":
    main()
