"""What operators look at: boards, chosen columns, exports, events, and moments in their zone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.command_line import Run, as_json, process

from jobboard import Cron, Every, JobBoard, Schedule, fetch
from jobboard.cli.app import run
from jobboard.operate.doctor import boards_of
from jobboard.operate.finding import ended_with_key
from jobboard.operate.selecting import Selection
from jobboard.testing import eventually

pytest_plugins = ("helpers.command_fixtures",)


@pytest.fixture
def in_india(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """India has no summer time."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class TestBoards:
    def test_all_that_are_in_the_store(self, jobboard: Run, uri: str, tmp_path: Path) -> None:
        with fetch("another", uri):
            pass
        assert jobboard("boards") == "name\nanother\ntest\n"
        assert as_json(jobboard("boards", "--json", "--name", "no such")) == [{"name": "another"}, {"name": "test"}]
        before = sorted(tmp_path.iterdir())
        assert "there is no file" in jobboard("boards", "--board", f"sqlite:///{tmp_path}/jbos.db", status=1)
        assert sorted(tmp_path.iterdir()) == before

    def test_a_store_that_cannot_tell(self) -> None:
        with pytest.raises(Exception, match="a memory store can't tell"):
            boards_of(fetch("a", "memory"))


class TestKeys:
    def test_a_key_that_no_job_on_the_board_has_is_looked_for_among_those_that_ended(
        self, board: JobBoard, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def told(*arguments: str) -> tuple[list[str], list[str]]:
            assert run(["ls", *arguments, "--json"]) == 0
            out, err = capsys.readouterr()
            return [row["uuid"] for row in as_json(out)], err.splitlines()

        trashed, done, other = (board.post(name, key="4711") for name in ("invoice", "mail", "sms"))
        assert (len(told("--key", "4711")[0]), told("--key", "4711")[1]) == (3, [])
        board.trash(trashed, by="me", reason="no customer\n17")
        board.claim(done, "w")
        board.consume(done, "w")
        assert told("--key", "4711") == ([other.uuid], [])
        board.cancel(other)
        uuids, lines = told("--key", "4711")
        assert (uuids, lines[0]) == (
            [], "no job on the board that fits has the key '4711'; these ended, and are kept:",
        )  # fmt: skip
        assert lines[1].startswith(f"  {done.uuid} mail, complete since 20")
        assert lines[2].startswith(f"  {trashed.uuid} invoice, in the trash since 20")
        assert lines[2].endswith(" UTC: no customer\\n17")
        assert [line.split()[0] for line in told("--key", "4711", "--job-name", "invoice")[1][1:]] == [trashed.uuid]
        assert told("--key", "4711", "--state", "trashed") == ([trashed.uuid], [])
        assert told("--key", "4711", "--state", "delayed") == ([], [])
        assert told("--key", "4712") == (
            [], ["no job on the board that fits has the key '4712', and none that ended and is kept"],
        )  # fmt: skip

    def test_of_many_that_ended_a_few_are_told_and_a_bounded_part_is_read(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for _ in range(7):
            board.trash(board.post("mail", key="k"), by="me")
        selection = Selection(key="k")
        assert len(ended_with_key(board, selection)) == 5
        monkeypatch.setattr("jobboard.operate.finding.MAX_SCANNED", 3)
        assert len(ended_with_key(board, selection)) == 3


class TestColumns:
    def test_those_that_are_named(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("a", max_attempts=3)
        assert jobboard("ls", "--columns", "name,max_attempts, uuid") == f"name\tmax_attempts\tuuid\na\t3\t{job.uuid}\n"
        assert as_json(jobboard("ls", "--columns", "name,last_error", "--json")) == [{"name": "a", "last_error": None}]

    @pytest.mark.parametrize("columns", ["nme", "", "uuid,", "details", "history"])
    def test_no_such_column(self, jobboard: Run, columns: str) -> None:
        assert "there are uuid, name" in jobboard("ls", "--columns", columns, status=2)


class TestExport:
    def test_details_and_errors_only_when_asked_for(self, jobboard: Run, board: JobBoard) -> None:
        first, second = board.post("a", details={"secret": b"x"}), board.post("b", details={"secret": 2})
        board.claim(first, "me")
        board.abandon(first, "me", reason="KeyError: 'x'", error="Stack: ...")
        lines = [as_json(line) for line in jobboard("export").splitlines()]
        assert [line["uuid"] for line in lines] == [first.uuid, second.uuid]
        assert "secret" not in jobboard("export")
        assert "Stack" not in jobboard("export", "--details")
        line = as_json(jobboard("export", "--details", "--errors", "--job-name", "a"))
        assert (line["details"], line["last_error"]) == ({"secret": {"$bytes": "eA=="}}, "Stack: ...")
        assert line["reason"] == lines[0]["reason"] == "KeyError: 'x'"

    def test_it_takes_the_selectors(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("a")
        board.post("a")
        board.trash(job, by="me", reason="bad")
        assert as_json(jobboard("export", "--state", "trashed"))["uuid"] == job.uuid
        assert jobboard("export", "--reason", "good") == ""


class TestFindingByKey:
    def test_in_the_trash_and_complete(self, jobboard: Run, board: JobBoard) -> None:
        trashed, done = board.post("a:b", key="k:1"), board.post("a", key="k2")
        board.trash(trashed, by="me", reason="bad")
        board.claim(done, "me")
        board.consume(done, "me")
        for text, job in (("a:b:k:1", trashed), ("a:k2", done)):
            assert as_json(jobboard("show", text, "--json"))["uuid"] == job.uuid
        live = board.post("a:b", key="k:1")
        assert as_json(jobboard("show", "a:b:k:1", "--json"))["uuid"] == live.uuid, "a live one comes first"
        jobboard("cancel", "a:b:k:1")
        assert "named 'a:b' restored" in jobboard("restore", "a:b:k:1")

    def test_several_are_told_apart_by_their_uuids(self, jobboard: Run, board: JobBoard) -> None:
        jobs = []
        for _ in range(7):
            jobs.append(board.post("a", key="k"))
            board.trash(jobs[-1], by="me")
        told = jobboard("show", "a:k", status=1)
        assert "7 jobs that ended had the key 'a:k'" in told
        assert sum(job.uuid in told for job in jobs) == 5

    @pytest.mark.parametrize("command", [["trash"], ["cancel"], ["signal"]], ids=" ".join)
    def test_a_job_that_has_ended_is_told_as_it_stands(
        self, jobboard: Run, board: JobBoard, command: list[str]
    ) -> None:
        job = board.post("resize", key="k")
        board.claim(job, "me")
        board.consume(job, "me")
        more = ["paid"] if command == ["signal"] else []
        for name in ("resize:k", job.uuid, job.uuid[-6:]):
            told = jobboard(*command, name, *more, status=1)
            assert f"job {job.uuid} is not on the board any more: resize, complete since 20" in told

    @pytest.mark.parametrize("verb", ["restore", "purge"])
    @pytest.mark.parametrize("is_live", [False, True])
    def test_what_is_for_the_trash_takes_the_one_in_it(
        self, jobboard: Run, board: JobBoard, verb: str, is_live: bool
    ) -> None:
        for _ in range(3):
            board.post("a", key="k")
            (done,) = board.claim_next("me")
            board.consume(done, "me")
        trashed = board.post("a", key="k")
        board.trash(trashed, by="me")
        if is_live:
            board.post("a", key="k")
        listed = as_json(jobboard(verb, "a:k", "--dry-run", "--json"))
        assert [job["uuid"] for job in listed] == [trashed.uuid]
        assert jobboard("trashed", "--newest", "--after", "a:k")
        jobboard(verb, "a:k", "--yes", status=1 if is_live and verb == "restore" else 0)
        assert [job.uuid for job in board.trashed()] == ([trashed.uuid] if is_live and verb == "restore" else [])
        jobboard("restore", "a:k", status=1)

    def test_several_in_the_trash_are_told_apart_by_their_uuids(self, jobboard: Run, board: JobBoard) -> None:
        jobs = []
        for _ in range(3):
            jobs.append(board.post("a", key="k"))
            board.trash(jobs[-1], by="me")
        board.post("a", key="k")
        told = jobboard("restore", "a:k", status=1)
        assert "3 jobs" in told
        assert all(job.uuid in told for job in jobs)

    @pytest.mark.parametrize("verb", ["cancel", "trash", "release", "run-now", "signal"])
    def test_what_is_for_live_jobs_says_that_none_is(self, jobboard: Run, board: JobBoard, verb: str) -> None:
        for _ in range(3):
            board.trash(board.post("a", key="k"), by="me")
        options = ["go"] if verb == "signal" else []
        assert "none of them is live" in jobboard(verb, "a:k", *options, status=1)
        live = board.post("a", key="k", delay=60)
        if verb == "release":
            board.run_now(live, by="me")
            board.claim(live, "me")
        jobboard(verb, "a:k", *options)


class TestWatch:
    @pytest.fixture
    def watched(self, board: JobBoard, tmp_path: Path) -> Iterator[Callable[..., set[str]]]:
        """Return the names and kinds of the events that are told while jobs come and go."""
        watchers = []

        def watch(*arguments: str) -> set[str]:
            file = tmp_path / "told"
            command = [sys.executable, "-m", "jobboard", "watch", "--json", *arguments]
            with file.open("w") as out:
                watchers.append(subprocess.Popen(command, stdout=out))

            def is_told() -> bool:
                job = board.post("mail")
                board.claim(job, "me")
                board.extend(job, "me")
                board.consume(job, "me")
                return file.read_text().count("\n") > 4

            eventually(is_told, within=60, every=0.05)
            # The last line may be half written.
            events = [json.loads(line) for line in file.read_text().split("\n")[:-1]]
            return {f"{event['name']} {event['kind']}" for event in events}

        yield watch
        for watcher in watchers:
            watcher.kill()
            watcher.wait()

    def test_no_flood_of_extensions(self, watched: Callable[..., set[str]]) -> None:
        assert watched() <= {"mail POSTED", "mail CLAIMED", "mail CONSUMED"}

    def test_extensions_when_asked_for(self, watched: Callable[..., set[str]]) -> None:
        assert watched("--kind", "extended", "--job-name", "mail", "--job-name", "x") == {"mail EXTENDED"}

    def test_one_job(self, jobboard: Run, board: JobBoard) -> None:
        assert jobboard("watch", "--job", board.post("a").uuid, "--for", "10ms", status=2)
        assert jobboard("watch", "--job", board.post("a").uuid, "--for", "0.01") == ""
        jobboard("watch", "--job", "a:k", "--for", "0.01", status=1)


class TestZones:
    def test_moments_are_said_in_one_way_wherever_the_operator_is(
        self, jobboard: Run, board: JobBoard, in_india: None
    ) -> None:
        job = board.post("a", run_at=datetime(2040, 1, 1, 12, tzinfo=UTC))
        at = "2040-01-01 12:00:00 UTC"
        assert at in jobboard("show", job.uuid)
        assert jobboard("ls", "--columns", "run_at").splitlines()[1] == at
        assert f"delayed until {at}" in jobboard("why", job.uuid)
        again = jobboard("post", "a", "--run-at", at, "--json")
        assert as_json(again)["run_at"] == as_json(jobboard("show", job.uuid, "--json"))["run_at"]
        assert f"posted {job.created_on:%Y-%m-%d %H:%M:%S} UTC" in jobboard("show", "--graph", job.uuid)
        assert as_json(jobboard("show", job.uuid, "--json"))["run_at"] == "2040-01-01T12:00:00+00:00"

    def test_moments_of_a_schedule_are_those_of_its_zone(self, jobboard: Run, board: JobBoard, in_india: None) -> None:
        board.schedules.add(Schedule("tokyo", Cron("0 3 * * *", tz="Asia/Tokyo"), "a"))
        board.schedules.add(Schedule("any", Every(days=1), "a"))
        assert " 03:00:00+09:00" in jobboard("schedule", "next", "tokyo", "--count", "1")
        assert jobboard("schedule", "next", "any", "--count", "1").endswith(" UTC\n")
        assert "03:00:00+09:00" in jobboard("schedule", "ls")
        assert "03:00:00+09:00" in jobboard("schedule", "show", "tokyo")
        assert " 03:00:00+09:00" in jobboard("schedule", "resume", "tokyo")
        (row,) = [row for row in as_json(jobboard("schedule", "ls", "--json")) if row["id"] == "tokyo"]
        assert (row["zone"], row["next_fire_time"][10:]) == ("Asia/Tokyo", "T18:00:00+00:00")


@pytest.mark.parametrize(
    ("words", "current", "found"),
    [
        ("jobboard sta", 1, {"plain,stats", "plain,status"}),
        ("jobboard schedule expl", 2, {"plain,explain"}),
        ("jobboard ls --board sqlite:///x.db --key-", 4, {"plain,--key-prefix", "plain,--key-contains"}),
        ("jobboard --name x ls --state unc", 5, {"plain,unclaimed"}),
    ],
)
def test_a_shell_completes_command_lines(words: str, current: int, found: set[str]) -> None:
    asked = {"_JOBBOARD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(current)}
    done = process(env={**os.environ, **asked})
    assert (set(done.stdout.split()), done.returncode, done.stderr) == (found, 0, "")


def test_the_script_for_the_shell() -> None:
    done = process(env={**os.environ, "_JOBBOARD_COMPLETE": "zsh_source"})
    assert (done.returncode, "_JOBBOARD_COMPLETE=zsh_complete" in done.stdout) == (0, True)
