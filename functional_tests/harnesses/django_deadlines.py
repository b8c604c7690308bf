"""Edits an order's timer in the moments around the end of its run, and prints what came of it: ``URI DRIVER``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from harnesses.django_transactions import settings_of

HOUR = timedelta(hours=1)


def main(uri: str, driver: str) -> None:
    from django.conf import settings

    apps = ["django_tasks", "jobboard.contrib.django", "shop"]
    backend = {"BACKEND": "jobboard.contrib.django.JobBoardBackend", "OPTIONS": {"name": "deadlines"}}
    settings.configure(
        DATABASES={"default": settings_of(uri, driver)}, USE_TZ=True, INSTALLED_APPS=apps, TASKS={"default": backend},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )  # fmt: skip
    import django

    django.setup()
    sys.stdout.write(json.dumps(_edit_at_each_end()))


def _edit_at_each_end() -> dict[str, Any]:
    from django.core.management import call_command
    from shop.deadlines import cancel_unpaid, pay_until
    from shop.models import Order

    from jobboard import Handlers, RunningJob
    from jobboard.contrib.django import board as jobboard_of_settings
    from jobboard.testing import run_due

    call_command("migrate", run_syncdb=True, verbosity=0)
    board = jobboard_of_settings()
    edits: list[Callable[[], None]] = []
    handlers = Handlers()

    @handlers.handler("cancel_unpaid")
    def edited_at_its_end(job: RunningJob) -> Any:
        outcome = cancel_unpaid(job)
        # The handler's transaction has ended; the conductor has not heard of it.
        edits.pop(0)()
        return outcome

    def reopen() -> None:
        Order.objects.filter(number=1).update(state="open")
        pay_until(1, datetime.now(UTC) + HOUR)

    def found() -> list[Any]:
        waits = [(job.key, str(job.state)) for job in board.iterjobs()]
        return [Order.objects.get(number=1).state, waits]

    Order.objects.create(number=1)
    pay_until(1, datetime.now(UTC) + HOUR)
    told = {"put off": found()}
    [timer] = board.iterjobs()
    board.run_now(timer)
    edits += [lambda: pay_until(1, datetime.now(UTC) - HOUR), lambda: None]
    run_due(board, handlers)
    told["moved to earlier"] = found()
    pay_until(1, datetime.now(UTC) - HOUR)
    Order.objects.filter(number=1).update(state="open")
    edits.append(reopen)
    run_due(board, handlers)
    told["reopened"] = found()
    board.close()
    return told


if __name__ == "__main__":
    main(*sys.argv[1:])
