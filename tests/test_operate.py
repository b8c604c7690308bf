"""What operators see and do, as plain data: no details unasked, and everything fit for JSON."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

import pytest
from helpers.memory_board import board

from jobboard import Entity, JobBoard, JobState, NotFound
from jobboard.operate.finding import find_job
from jobboard.operate.views import entity_view, owners, plain, row_of, stats, view_of

__all__ = ["board"]


class TestViews:
    def test_details_are_shown_only_when_asked_for(self, board: JobBoard) -> None:
        job = board.post("a", details={"secret": 1})
        assert "secret" not in json.dumps(plain(view_of(job)) | plain(row_of(job)))
        assert view_of(job, with_details=True)["details"] == {"secret": 1}

    def test_a_view_holds_the_record(self, board: JobBoard) -> None:
        job = board.post("a")
        token = board.claim(job, "alice")
        board.checkpoint(job, "alice", {"page": 3})
        board.abandon(job, "alice", reason="busy", error="no room")
        view = view_of(board.get(job.uuid))
        assert (view["checkpoint"], view["reason"], view["last_error"]) == ({"page": 3}, "busy", "no room")
        assert (view["attempts"], view["token"], view["owner"]) == (1, token, None)
        assert [line["kind"] for line in view["history"]] == ["POSTED", "CLAIMED", "ABANDONED"]
        assert view["history"][1]["who"] == "alice"

    def test_owners_come_by_the_number_of_their_jobs(self, board: JobBoard) -> None:
        board.register_entity(Entity("conductor", "bob"))
        jobs = [board.post(name) for name in ("a", "b", "a", "a")]
        board.claim(jobs[0], "alice")
        for job in jobs[1:3]:
            board.claim(job, "bob", expiry=math.inf)
        board.extend(jobs[1], "bob", math.inf)
        bob, alice = owners(board)
        assert (bob["owner"], bob["jobs"], bob["names"], bob["alive"]) == ("bob", 2, ["a", "b"], True)
        assert (bob["oldest"], bob["next_expiry"]) == (jobs[1].history[1].at, None)
        assert (alice["owner"], alice["jobs"], alice["alive"]) == ("alice", 1, None)
        assert alice["next_expiry"] > datetime.now(UTC)

    def test_stats_say_what_is_paused(self, board: JobBoard) -> None:
        board.post("b")
        board.post("a", delay=100)
        board.pause("a", by="ada", reason="disk full")
        found = stats(board)
        assert (found["unclaimed"], found["delayed"], list(found["names"])) == (1, 1, ["a", "b"])
        assert found["oldest_unclaimed"] >= 0
        [pause] = board.pauses()
        told = {"name": "a", "by": "ada", "reason": "disk full", "at": pause.at}
        assert found["paused"] == {"board": False, "names": ["a"], "pauses": [told], "lanes": []}

    def test_entities_without_metadata(self, board: JobBoard) -> None:
        board.register_entity(Entity("scheduler", "s"))
        view = entity_view(board.entities()[0])
        assert (view["kind"], view["alive"], view["running"]) == ("scheduler", True, None)

    def test_everything_becomes_json(self) -> None:
        moment = datetime(2030, 1, 2, tzinfo=UTC)
        value = {
            "t": moment,
            1: b"\xff",
            "nan": math.nan,
            "inf": [math.inf],
            "s": {3},
            "x": JobState.CLAIMED,
            "n": None,
        }
        assert json.loads(json.dumps(plain(value), allow_nan=False)) == {
            "t": "2030-01-02T00:00:00+00:00",
            "1": {"base64": "/w=="},
            "nan": "nan",
            "inf": ["inf"],
            "s": [3],
            "x": "CLAIMED",
            "n": None,
        }


class TestFinding:
    def test_by_uuid_in_any_spelling(self, board: JobBoard) -> None:
        job = board.post("a")
        for spelling in (job.uuid, job.uuid.upper(), job.uuid.replace("-", "")):
            assert find_job(board, spelling) == job

    def test_by_the_beginning_or_the_end(self, board: JobBoard) -> None:
        one = board.post("a", uuid="aaaa1111-0000-4000-8000-000000000000")
        two = board.post("a", uuid="aaaa2222-0000-4000-8000-00000000bbbb")
        board.trash(two, by="me")
        assert find_job(board, "AAAA1") == one
        assert find_job(board, "aaaa2222-0") == find_job(board, "BBBB") == find_job(board, "0-8000-00000000bbbb") == two
        for text, said in (
            ("aaaa", "2 jobs"),
            ("aaaa3", "no job's"),
            ("aaa", "first or last 4"),
            ("zzzz", "first or last 4"),
            ("count", "jobboard ls --job-name count"),
            ("send mail", "jobboard ls --job-name 'send mail'"),
        ):
            with pytest.raises(NotFound, match=said):
                find_job(board, text)

    def test_a_handle_comes_with_its_history(self, board: JobBoard) -> None:
        job = board.post("a", key="k")
        for text in (job.uuid, job.uuid[-13:], "a:k"):
            assert len(find_job(board, text).record.history) == 1

    @pytest.mark.parametrize(("name", "key"), [("a", "k"), ("a:b", "k"), ("a", "k:l"), ("a:b", "k:l"), ("a", "1:")])
    def test_names_and_keys_may_hold_colons(self, board: JobBoard, name: str, key: str) -> None:
        job = board.post(name, key=key)
        assert find_job(board, f"{name}:{key}") == job

    @pytest.mark.parametrize("text", ["a:x", "x:k", ":k", "a:", ":"])
    def test_no_such_key(self, board: JobBoard, text: str) -> None:
        board.post("a", key="k")
        with pytest.raises(NotFound):
            find_job(board, text)
