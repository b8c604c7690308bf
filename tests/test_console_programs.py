"""Programs in any language post jobs that wait for each other, ask how a job stands, cancel it and send it signals."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from helpers.console import Asking
from helpers.console_jobs import ask_as, board, on_both

from jobboard import JobBoard, JobState, NotFound
from jobboard.console import RIGHTS
from jobboard.validation import new_uuid

__all__ = ["board"]

_JOBS = "/b/jobs/jobs"
_ACCEPT = {"Accept": "application/json"}


def _send(ask: Asking, sent: object, path: str = _JOBS) -> httpx.Response:
    return ask.ask("POST", path, content=json.dumps(sent).encode(), headers={"Content-Type": "application/json"})


def _tell(ask: Asking, uuid: str, headers: dict[str, str] | None = None) -> httpx.Response:
    return ask.get(f"{_JOBS}/{uuid}", headers=headers or _ACCEPT)


class TestGraphs:
    @on_both
    def test_jobs_that_wait_for_each_other_are_posted_in_one_request(self, board: JobBoard) -> None:
        first, *parts, last = (new_uuid() for _ in range(5))
        sent = {
            "jobs": [
                {"name": "report", "uuid": last, "after": parts, "if_failed": "run"},
                {"name": "extract", "uuid": first},
                *({"name": "part", "uuid": part, "after": [first], "details": {"n": 1}} for part in parts),
            ]
        }
        answers = [_send(ask_as(board, "post"), sent) for _ in range(2)]
        assert [(answer.status_code, answer.json()) for answer in answers] == [
            (201, {"uuids": [last, first, *parts]})
        ] * 2
        assert len(list(board.iterjobs())) == 5
        assert {job.uuid for job in board.get(last).parents()} == set(parts)
        assert [job.uuid for job in board.claim_next("ann", limit=5)] == [first]
        board.consume(board.get(first), "ann")
        assert {job.uuid for job in board.claim_next("ann", limit=5)} == set(parts)

    def test_a_job_waits_for_one_of_the_board_and_another_one_for_it(self, board: JobBoard) -> None:
        parent, ask = board.post("extract"), ask_as(board, "post", "cancel")
        child = board.post("report", after=[parent])
        uuid = _send(ask, {"name": "part", "after": [parent.uuid], "before": [child.uuid]}).json()["uuid"]
        assert board.get(uuid).record.state is JobState.BLOCKED
        assert {job.uuid for job in board.get(child.uuid).parents()} == {parent.uuid, uuid}

    @pytest.mark.parametrize("is_batch", [False, True])
    def test_who_may_only_post_changes_no_job_that_waits(self, board: JobBoard, is_batch: bool) -> None:
        """Neither by its key, nor by a uuid, also if that is among those of the request."""
        theirs = board.post("pay", {"iban": "theirs"}, key="invoice/1")
        replacing = {"name": "pay", "key": "invoice/1", "if_exists": "replace", "details": {"iban": "mine"}}
        for sent in (replacing, {"name": "hold", "before": [theirs.uuid]}):
            jobs = {"jobs": [{"name": "pay", "uuid": theirs.uuid}, sent]} if is_batch else sent
            answer = _send(ask_as(board, *(set(RIGHTS) - {"cancel"})), jobs)
            assert (answer.status_code, "right 'cancel'" in answer.json()["error"]) == (403, True)
        [job] = board.iterjobs()
        assert (job.details, job.record.state) == ({"iban": "theirs"}, JobState.UNCLAIMED)
        assert _send(ask_as(board, "post", "cancel"), replacing).status_code == 201
        assert board.get(theirs.uuid).details == {"iban": "mine"}

    @pytest.mark.parametrize(
        ("jobs", "status", "said"),
        [
            ([], 400, "several jobs are one field"),
            ({}, 400, "several jobs are one field"),
            ([{"name": "mail"}, {"name": "mail", "dely": 1}], 400, "jobs[1]: a job has no 'dely'"),
            ([{"name": "mail"}, 7], 400, "jobs[1]: a job must be a JSON object"),
            ([{"name": "mail"}, {"name": "mail", "after": "x"}], 400, "jobs[1]: after must be a list of uuids"),
            ([{"name": "mail", "after": ["x"]}], 400, "not a uuid: 'x'"),
            ([{"name": "mail", "after": [7]}], 400, "must be a str"),
            ([{"name": "mail", "after": [new_uuid()]}], 409, "no job"),
            ([{"name": "mail", "uuid": uuid} for uuid in [new_uuid()] * 2], 400, "two of the jobs have the same uuid"),
        ],
    )
    def test_what_can_not_be_posted_is_told_and_nothing_is(
        self, board: JobBoard, jobs: Any, status: int, said: str
    ) -> None:
        answer = _send(ask_as(board, "post"), {"jobs": jobs})
        assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text
        assert list(board.iterjobs()) == []

    def test_jobs_that_wait_for_each_other_for_ever_are_refused(self, board: JobBoard) -> None:
        ours, theirs = new_uuid(), new_uuid()
        jobs = [{"name": "a", "uuid": ours, "after": [theirs]}, {"name": "b", "uuid": theirs, "after": [ours]}]
        answer = _send(ask_as(board, "post"), {"jobs": jobs})
        assert (answer.status_code, "wait for each other" in answer.json()["error"]) == (400, True)


class TestHowAJobStands:
    @on_both
    def test_a_program_learns_how_a_job_stands_and_its_result(self, board: JobBoard) -> None:
        job, ask = board.post("mail", {"to": "ann"}, key="order/1"), ask_as(board, "details")
        told = _tell(ask, job.uuid).json()
        assert (told["uuid"], told["name"], told["state"], told["key"]) == (job.uuid, "mail", "UNCLAIMED", "order/1")
        assert (told["details"], told["result"], told["attempts"]) == ({"to": "ann"}, None, 0)
        (claimed,) = board.claim_next("ann")
        board.consume(claimed, "ann", result={"sent": datetime(2030, 1, 31, tzinfo=UTC)})
        told = _tell(ask, job.uuid).json()
        assert (told["state"], told["result"]) == ("COMPLETE", {"sent": "2030-01-31T00:00:00+00:00"})

    def test_why_a_job_failed_is_told(self, board: JobBoard) -> None:
        job = board.post("mail", {"password": "secret"})
        board.trash(job, by="ann", reason="no such address")
        told = _tell(ask_as(board), job.uuid).json()
        assert (told["state"], told["reason"]) == ("TRASHED", "no such address")

    def test_what_a_job_carries_is_for_those_who_may_see_details(self, board: JobBoard) -> None:
        job = board.post("mail", {"password": "secret"})
        (claimed,) = board.claim_next("ann")
        board.checkpoint(claimed, "ann", {"password": "secret"})
        answer = _tell(ask_as(board, *(set(RIGHTS) - {"details"})), job.uuid)
        assert (answer.status_code, "secret" in answer.text) == (200, False)
        assert not {"details", "raw", "checkpoint", "progress", "result"} & answer.json().keys()
        hidden = ask_as(board, "details", format_details=lambda job: {"fields": len(job.details or {})})
        told = _tell(hidden, job.uuid).json()
        assert (told["details"], told["checkpoint"]) == ({"fields": 1}, {"password": "secret"})
        assert "raw" not in told

    def test_a_job_that_is_not_there_and_a_browser(self, board: JobBoard) -> None:
        job, ask = board.post("mail"), ask_as(board)
        for uuid in (new_uuid(), "x"):
            answer = _tell(ask, uuid)
            assert (answer.status_code, list(answer.json())) == (404, ["error"])
        for accept in ("text/html,application/xhtml+xml,*/*;q=0.8", "*/*", "text/html, application/json"):
            assert _tell(ask, job.uuid, {"Accept": accept}).headers["Content-Type"].startswith("text/html")


class TestChanges:
    @on_both
    def test_a_program_cancels_a_job(self, board: JobBoard) -> None:
        told: list[tuple[Any, ...]] = []
        job, ask = board.post("mail"), ask_as(board, "cancel", on_action=lambda *action: told.append(action))
        answer = _send(ask, {"action": "cancel", "reason": "left"}, f"{_JOBS}/{job.uuid}")
        assert (answer.status_code, answer.json()) == (200, {"uuid": job.uuid, "cancelled": True})
        assert told == [("ann", "cancel", [job.uuid])]
        with pytest.raises(NotFound):
            board.get(job.uuid)
        assert _send(ask, {"action": "cancel"}, f"{_JOBS}/{job.uuid}").status_code == 404
        running = board.post("mail")
        board.claim_next("worker")
        answer = _send(ask, {"action": "cancel"}, f"{_JOBS}/{running.uuid}")
        assert answer.json() == {"uuid": running.uuid, "cancelled": False}
        assert board.get(running.uuid).record.cancel_asked

    @on_both
    def test_a_program_sends_a_signal_once(self, board: JobBoard) -> None:
        job, ask = board.post("order"), ask_as(board, "signal")
        sent = {"action": "signal", "name": "paid", "value": {"cents": 1250}}
        answers = [_send(ask, sent | {"value": {"cents": cents}}, f"{_JOBS}/{job.uuid}") for cents in (1250, 1)]
        assert [answer.json() for answer in answers] == [
            {"uuid": job.uuid, "new": True}, {"uuid": job.uuid, "new": False}
        ]  # fmt: skip
        assert [(one.name, one.value) for one in job.signals()] == [("paid", {"cents": 1250})]

    @pytest.mark.parametrize(
        ("sent", "said"),
        [
            ({}, 'with an "action", one of cancel, signal'),
            ([], 'with an "action", one of cancel, signal'),
            ({"action": []}, 'with an "action", one of cancel, signal'),
            ({"action": "purge"}, 'with an "action", one of cancel, signal'),
            ({"action": "cancel", "by": "eve"}, "cancel has no 'by'; it has reason"),
            ({"action": "cancel", "reason": 7}, "reason must"),
            ({"action": "signal"}, "name must be a str"),
            ({"action": "signal", "name": ""}, "name must not be empty"),
            ({"action": "signal", "name": "paid", "value": 10**30}, "value"),
        ],
    )
    def test_what_can_not_be_done_is_told_and_changes_nothing(self, board: JobBoard, sent: object, said: str) -> None:
        job = board.post("order")
        answer = _send(ask_as(board, *RIGHTS), sent, f"{_JOBS}/{job.uuid}")
        assert (answer.status_code, said in answer.json()["error"]) == (400, True), answer.text
        assert (board.get(job.uuid).record.state, job.signals()) == (JobState.UNCLAIMED, [])

    def test_it_needs_the_right(self, board: JobBoard) -> None:
        job = board.post("order")
        for rights, action in (
            ({"signal"}, "cancel"),
            ({"cancel"}, "signal"),
            (set(RIGHTS) - {"cancel", "signal"}, ""),
        ):
            answer = _send(ask_as(board, *rights), {"action": action, "name": "paid"}, f"{_JOBS}/{job.uuid}")
            assert (answer.status_code, answer.json()["error"].startswith("you lack the right")) == (403, True)
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            answer = ask_as(board, *RIGHTS).ask(
                "POST", f"{_JOBS}/{job.uuid}", json={"action": "cancel"}, headers=headers
            )
            assert answer.status_code == 403
        assert (board.get(job.uuid).record.state, job.signals()) == (JobState.UNCLAIMED, [])
