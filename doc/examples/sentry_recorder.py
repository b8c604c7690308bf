"""Errors of handlers in Sentry, with the job that they belong to; never with its details."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import sentry_sdk

from jobboard import Cancelled, RunAgain, telemetry


class SentryRecorder(telemetry.Recorder):
    """Reports what handlers raise, each attempt by itself."""

    @contextlib.contextmanager
    def around(self, job: telemetry.RunningJob) -> Iterator[None]:
        with sentry_sdk.isolation_scope() as scope:
            scope.set_transaction_name(job.name)
            scope.set_tag("jobboard.board", job.board_name)
            scope.set_context("job", {"uuid": job.uuid, "attempt": job.attempts})
            try:
                yield
            except (RunAgain, Cancelled):
                # A handler says by them how it goes on; nothing has failed.
                raise
            except Exception as error:
                sentry_sdk.capture_exception(error)
                raise
