"""Schedules on the command line, on real SQLite boards."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from helpers.command_line import Run, as_json, process

from jobboard import AnyOf, At, Calendar, Cron, Entity, Every, Excluding, JobBoard, Schedule, Scheduler
from jobboard.cli.app import REFUSED, USAGE
from jobboard.cli.session import me
from jobboard.operate.status import status
from jobboard.schedules.progress import Progress
from jobboard.schedules.triggers import Trigger
from jobboard.testing import eventually, fire_due
from jobboard.testing.contract.clockwork import fire, spoil

pytest_plugins = ("helpers.command_fixtures",)

START = datetime(2031, 3, 1, 9, tzinfo=UTC)


@contextmanager
def running(*arguments: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a command that lasts; it must end well on SIGTERM."""
    command = [sys.executable, "-m", "jobboard", *arguments]
    child = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield child
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
        assert (child.returncode, "Traceback" in err) == (0, False), err
        assert "on board 'test'" in out
    finally:
        child.kill()
        child.communicate()


class TestChanging:
    def test_add_says_when_it_is_due_first(self, jobboard: Run, board: JobBoard) -> None:
        said = jobboard(
            "schedule", "add", "nightly", "write", "--cron", "0 3 * * mon-fri", "--tz", "Europe/Berlin", "--details",
            '{"a": 1}', "--priority", "high", "--max-instances", "any", "--misfire-grace", "60", "--max-attempts", "3",
        )  # fmt: skip
        schedule = board.schedules.get("nightly")
        assert schedule == Schedule(
            "nightly", Cron("0 3 * * mon-fri", "Europe/Berlin"), "write", {"a": 1}, priority="HIGH", max_instances=None,
            misfire_grace=60, max_attempts=3,
        )  # fmt: skip
        assert schedule.next_fire_time is not None
        assert " 03:00:00+0" in said, "on the clocks of its zone"

    def test_add_and_modify_say_that_no_conductor_has_the_name(self, uri: str, board: JobBoard) -> None:
        board.register_entity(Entity("conductor", "worker", {"names": ["report"]}))
        added = process("schedule", "add", "nightly", "reprot", "--every", "1h")
        assert (added.returncode, "'reprot'" in added.stderr) == (0, True)
        assert process("schedule", "modify", "nightly", "--job", "report").stderr == ""

    @pytest.mark.parametrize(
        ("options", "trigger"),
        [
            (["--every", "1h30m"], Every(minutes=90)),
            (["--every", "2d"], Every(days=2)),
            (["--trigger", json.dumps(Calendar(months=1, at="09:00", tz="Europe/Berlin").to_plain())],
             Calendar(months=1, at="09:00", tz="Europe/Berlin")),
        ],
    )  # fmt: skip
    def test_there_are_several_ways_to_say_when(
        self, jobboard: Run, board: JobBoard, options: list[str], trigger: object
    ) -> None:
        jobboard("schedule", "add", "a", "write", *options)
        assert board.schedules.get("a").trigger == trigger

    def test_all_schedulers_can_be_paused(self, jobboard: Run, board: JobBoard) -> None:
        board.schedules.add(Schedule("once", At(datetime.now(UTC)), "write"))
        for wrong in (["pause"], ["pause", "a", "--all"], ["resume"], ["resume", "a", "--all"]):
            jobboard("schedule", *wrong, status=USAGE)
        jobboard("schedule", "pause", "--all", "--by", "ada", "--note", "the database moves")
        assert fire(board) == 0
        said = status(board)
        assert (said["schedules"]["all_paused"], said["schedules"]["active"]) == (True, 1)
        [text] = [found["text"] for found in said["findings"] if found["kind"] == "schedulers_paused"]
        assert text.startswith("All schedulers are paused since 20")
        assert text.endswith(": the database moves (by ada). See: jobboard schedule resume --all")
        assert "once" in jobboard("schedule", "ls")
        assert "jobboard:pause" not in jobboard("schedule", "ls")
        jobboard("check")
        jobboard("schedule", "resume", "--all")
        assert (fire(board), status(board)["schedules"]["all_paused"]) == (1, False)

    def test_the_first_time_can_be_told_and_all_be_removed(self, jobboard: Run, board: JobBoard) -> None:
        first = datetime(2031, 1, 1, 9, 7, tzinfo=UTC)
        jobboard("schedule", "add", "a", "write", "--every", "5m", "--next-run-time", first.isoformat())
        assert board.schedules.get("a").next_fire_time == first
        jobboard("schedule", "add", "b", "write", "--every", "5m")
        for wrong in ([], ["a", "--all"], ["--all"]):
            jobboard("schedule", "rm", *wrong, status=USAGE)
        assert as_json(jobboard("schedule", "rm", "--all", "--yes", "--json")) == {"removed": 2}
        assert list(board.schedules) == []

    @pytest.mark.parametrize(
        "options",
        [
            [], ["--cron", "@daily", "--every", "5m"], ["--every", "soon"], ["--every", "5m", "--tz", "UTC"],
            ["--once", "tomorrow"], ["--once", "2030-01-01T00:00"], ["--trigger", "{"],
            ["--every", "5m", "--max-instances", "some"], ["--every", "5m", "--details", "[]"],
            ["--cron", "61 * * * *"], ["--cron", "@daily", "--tz", "Mars"], ["--trigger", '{"kind": "moon"}'],
            ["--once", "2001-01-01T00:00Z", "--start", "2002-01-01T00:00Z"], ["--every", "0.5s"],
        ],
    )  # fmt: skip
    def test_wrong_usage_is_status_2(self, jobboard: Run, board: JobBoard, options: list[str]) -> None:
        jobboard("schedule", "add", "a", "write", *options, status=USAGE)
        assert list(board.schedules) == []

    @pytest.mark.parametrize(
        "arguments",
        [
            ["add", "there", "write", "--every", "5m"], ["show", "a"], ["rm", "a"], ["fire", "a"], ["pause", "a"],
            ["modify", "a", "--job", "x"],
        ],
    )  # fmt: skip
    def test_a_refusal_is_one_line_and_status_1(self, jobboard: Run, board: JobBoard, arguments: list[str]) -> None:
        board.schedules.add(Schedule("there", Every(minutes=1), "write"))
        jobboard("schedule", *arguments, status=REFUSED)

    def test_what_no_schedule_can_be_is_wrong_usage(self, jobboard: Run, board: JobBoard) -> None:
        board.schedules.add(Schedule("there", Every(minutes=1), "write"))
        jobboard("schedule", "modify", "there", "--every", "0.5s", status=USAGE)
        span = ["--from", "1990-01-01T00:00Z", "--to", "2030-01-01T00:00Z"]
        jobboard("schedule", "backfill", "there", *span, status=USAGE)
        jobboard("schedule", "import", "/no/such/file", status=USAGE)

    @pytest.mark.parametrize(
        ("before", "options", "after"),
        [
            (Cron("0 1 * * *", "Europe/Berlin", gap="skip", fold="both"), ["--cron", "30 9 * * *"],
             Cron("30 9 * * *", "Europe/Berlin", gap="skip", fold="both")),
            (Cron("0 1 * * *", "Europe/Berlin", gap="skip"), ["--cron", "30 9 * * *", "--tz", "UTC"],
             Cron("30 9 * * *", gap="skip")),
            (Cron("0 1 * * *", "Europe/Berlin", fold="second"), ["--tz", "Asia/Tokyo"],
             Cron("0 1 * * *", "Asia/Tokyo", fold="second")),
            (Cron("0 1 * * *", "Europe/Berlin"), ["--gap", "skip", "--fold", "both"],
             Cron("0 1 * * *", "Europe/Berlin", gap="skip", fold="both")),
            (Calendar(months=2, at="09:00", tz="Europe/Berlin", fold="both", start=START), ["--tz", "Asia/Tokyo"],
             Calendar(months=2, at="09:00", tz="Asia/Tokyo", fold="both", start=START)),
            (Calendar(months=2, at="09:00", tz="Europe/Berlin", fold="both"), ["--cron", "30 9 1 * *"],
             Cron("30 9 1 * *", "Europe/Berlin", fold="both")),
            (Every(hours=1, start=START), ["--every", "2h"], Every(hours=2, start=START)),
            (Every(hours=1, start=START), ["--cron", "@daily"], Cron("@daily")),
            (Cron("0 1 * * *", "Europe/Berlin"), ["--every", "2h"], Every(hours=2)),
            (Cron("0 1 * * *", "Europe/Berlin"), ["--once", START.isoformat()], At(START)),
            (Excluding(Cron("0 1 * * *", "Europe/Berlin", gap="skip"), START.date()), ["--cron", "30 9 * * *"],
             Excluding(Cron("30 9 * * *", "Europe/Berlin", gap="skip"), START.date())),
            (Excluding(Cron("0 1 * * *", "Europe/Berlin"), START.date()), ["--tz", "Asia/Tokyo"],
             Excluding(Cron("0 1 * * *", "Asia/Tokyo"), START.date())),
            (Excluding(Cron("0 1 * * *", "Europe/Berlin"), START.date(), tz="UTC"), ["--tz", "Asia/Tokyo"],
             Excluding(Cron("0 1 * * *", "Asia/Tokyo"), START.date(), tz="UTC")),
            (AnyOf(Cron("0 1 * * *", "Europe/Berlin"), Cron("0 2 * * *", "Europe/Berlin")), ["--cron", "30 9 * * *"],
             Cron("30 9 * * *", "Europe/Berlin")),
        ],
    )  # fmt: skip
    def test_modify_keeps_of_the_times_what_is_not_given(
        self, jobboard: Run, board: JobBoard, before: Trigger, options: list[str], after: Trigger
    ) -> None:
        added = board.schedules.add(
            Schedule("nightly", before, "write", jitter=30, end=START.replace(year=2040), max_instances=None)
        )
        jobboard("schedule", "modify", "nightly", *options)
        assert board.schedules.get("nightly") == replace(added, trigger=after)

    @pytest.mark.parametrize(
        ("before", "options"),
        [
            (Every(hours=1), ["--tz", "Asia/Tokyo"]),
            (At(START), ["--gap", "skip"]),
            (Cron("0 1 * * *"), ["--tz", "Mars"]),
            (Cron("0 1 * * *"), ["--once", START.isoformat(), "--tz", "Asia/Tokyo"]),
            (AnyOf(Cron("0 1 * * *", "Europe/Berlin"), Cron("0 2 * * *")), ["--cron", "30 9 * * *"]),
        ],
    )
    def test_a_zone_that_says_nothing_or_is_not_certain_is_refused(
        self, jobboard: Run, board: JobBoard, before: Trigger, options: list[str]
    ) -> None:
        added = board.schedules.add(Schedule("nightly", before, "write"))
        jobboard("schedule", "modify", "nightly", *options, status=USAGE)
        assert board.schedules.get("nightly") == added

    def test_modify_pause_resume_and_rm(self, jobboard: Run, board: JobBoard) -> None:
        board.schedules.add(Schedule("a", Every(hours=1), "write"))
        jobboard("schedule", "modify", "a", "--job", "print", "--jitter", "2")
        assert (board.schedules.get("a").job, board.schedules.get("a").jitter) == ("print", 2.0)
        jobboard("schedule", "modify", "a", status=USAGE)
        assert "paused" in jobboard("schedule", "pause", "a", "--note", "no paper")
        note = as_json(jobboard("schedule", "show", "a", "--json"))["note"]
        assert note.startswith(f"no paper (by {me()} since 20")
        assert "next at" in jobboard("schedule", "resume", "a", "--by", "ada", "--note", "a ream")
        assert [line["reason"] for line in as_json(jobboard("schedule", "show", "a", "--json"))["history"]] == [
            f"modified, by {me()}", f"paused, by {me()}: no paper", "resumed, by ada: a ream",
        ]  # fmt: skip
        assert "resumed, by ada: a ream" in jobboard("schedule", "show", "a")
        assert jobboard("schedule", "rm", "a") == "a is removed\n"
        assert list(board.schedules) == []

    def test_fire_and_backfill_post_jobs(self, jobboard: Run, board: JobBoard) -> None:
        board.schedules.add(Schedule("a", Every(hours=1), "write"))
        uuid = jobboard("schedule", "fire", "a", "--by", "ada").strip()
        assert board.get(uuid).schedule_id == "a"
        arguments = ("schedule", "backfill", "a", "--from", "2026-01-01T00:00Z", "--to", "2026-01-01T05:00Z")
        assert jobboard(*arguments) == "6 jobs posted\n"
        assert len(as_json(jobboard(*arguments, "--json"))) == 6
        assert board.job_count == 7
        reasons = [line.reason for line in board.schedules.history("a")]
        assert reasons == ["by hand, by ada", *[f"backfill, by {me()}"] * 2]


class TestFiles:
    def test_what_was_exported_can_be_imported(self, jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
        at = datetime(2030, 1, 1, tzinfo=UTC)
        schedules = [
            Schedule("a", Every(hours=1), "write", {"raw": b"\xff", "at": at}),
            Schedule("b", Cron("@daily"), "write", paused=True, end=at),
        ]
        for schedule in schedules:
            board.schedules.add(schedule)
        file = tmp_path / "schedules.json"
        file.write_text(jobboard("schedule", "export"))
        for schedule in schedules:
            board.schedules.remove(schedule.id)
        assert jobboard("schedule", "import", str(file)) == "2 schedules imported\n"
        assert [board.schedules.get(schedule.id) for schedule in schedules] == schedules
        jobboard("schedule", "import", str(file), status=REFUSED)
        assert len(as_json(jobboard("schedule", "import", str(file), "--if-exists", "keep", "--json"))) == 2

    def test_a_file_that_is_wrong_says_where(self, jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
        file = tmp_path / "schedules.json"
        file.write_text(json.dumps([Schedule("a", Every(hours=1), "write").to_plain(), {"id": "b"}]))
        assert "schedule 2 of the file" in jobboard("schedule", "import", str(file), status=USAGE)
        assert list(board.schedules) == []

    def test_an_import_that_stops_says_how_far_it_came(self, jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
        file = tmp_path / "schedules.json"
        file.write_text(json.dumps([Schedule(id, Every(hours=1), "write").to_plain() for id in "ab"]))
        board.schedules.add(Schedule("b", Every(hours=2), "write"))
        assert "; 1 schedule before it imported" in jobboard("schedule", "import", str(file), status=REFUSED)

    def test_a_crontab_can_be_imported_again_and_again(self, board: JobBoard) -> None:
        text = "CRON_TZ=Europe/Berlin\n# backups\n0 3 * * * backup /home\n@hourly sync\n"
        for if_exists in ("raise", "replace"):
            arguments = ("schedule", "import", "-", "--crontab", "--job", "shell", "--if-exists", if_exists)
            done = process(*arguments, input=text)
            assert (done.returncode, done.stdout) == (0, "2 schedules imported\n"), done.stderr
        found = {schedule.details["command"]: schedule for schedule in board.schedules if schedule.details}
        assert found["backup /home"].trigger == Cron("0 3 * * *", "Europe/Berlin")
        assert {schedule.job for schedule in found.values()} == {"shell"}
        assert len(list(board.schedules)) == 2


class TestLooking:
    def test_ls_show_and_next(self, jobboard: Run, board: JobBoard) -> None:
        assert as_json(jobboard("schedule", "ls", "--json")) == []
        board.schedules.add(Schedule("a", Every(hours=1), "write", {"secret": 1}))
        board.schedules.fire_now("a")
        [header, row] = jobboard("schedule", "ls").splitlines()
        assert (header.split("\t")[0], row.split("\t")[:2]) == ("id", ["a", "active"])
        assert "every hour" in row
        assert "FIRED" in jobboard("schedule", "show", "a")
        assert "secret" not in jobboard("schedule", "show", "a")
        assert as_json(jobboard("schedule", "show", "a", "--details", "--json"))["details"] == {"secret": 1}
        times = jobboard("schedule", "next", "a", "--count", "3").splitlines()
        expected = board.schedules.upcoming("a", 3)
        assert times == [f"{time:%Y-%m-%d %H:%M:%S} UTC" for time in expected]
        told = as_json(jobboard("schedule", "next", "a", "--count", "3", "--json"))
        assert [datetime.fromisoformat(time) for time in told] == expected

    def test_show_has_all_counts_and_for_how_many_fire_times_a_line_stands(
        self, jobboard: Run, board: JobBoard
    ) -> None:
        ago = datetime.now(UTC) - timedelta(seconds=10)
        board.schedules.add(Schedule("beat", Every(seconds=1), "write"), next_run_time=ago)

        def progress() -> Progress:
            fire_due(board)
            progress = board.schedules.get("beat").progress
            assert progress is not None
            return progress

        eventually(lambda: progress().skipped >= 3, within=60)
        expected = board.schedules.get("beat").progress
        told = jobboard("schedule", "show", "beat")
        shown = dict(line.split(None, 1) for line in told.splitlines() if not line.startswith("  "))
        numbers = {what: int(shown[what]) for what in ("runs", "missed", "skipped", "failed")}
        assert numbers == {what: getattr(expected, what) for what in numbers}
        view = as_json(jobboard("schedule", "show", "beat", "--json"))
        assert {what: view[what] for what in numbers} == numbers
        lines = [line.split("  ") for line in told.splitlines() if line.startswith("  ")]
        kinds = [f"{each['kind']} ({each['count']})" if each["count"] > 1 else each["kind"] for each in view["history"]]
        assert [line[2] for line in lines] == kinds
        assert any(kind.startswith("MISSED (") for kind in kinds), kinds
        assert [line[4] for line in lines] == [each["uuid"] or "-" for each in view["history"]]

    def test_show_lists_the_jobs_that_are_live(self, jobboard: Run, board: JobBoard) -> None:
        board.schedules.add(Schedule("a", Every(seconds=1), "write", max_instances=3))
        clock = Scheduler(board, "clock")
        clock.start()
        try:
            eventually(lambda: board.job_count == 3)
        finally:
            clock.stop()
        jobs = list(board.iterjobs())

        def live() -> list[str]:
            found: list[str] = as_json(jobboard("schedule", "show", "a", "--json"))["live"]
            return sorted(found)

        assert live() == sorted(job.uuid for job in jobs)
        board.claim(jobs[0], "me")
        board.consume(jobs[0], "me")
        board.trash(jobs[1])
        assert live() == [jobs[2].uuid]
        board.cancel(jobs[2])
        assert live() == []

    def test_one_that_cannot_be_read_is_listed_and_can_be_removed(self, jobboard: Run, board: JobBoard) -> None:
        for id in ("good", "bad"):
            board.schedules.add(Schedule(id, Every(hours=1), "write"))
        spoil(board, "bad")
        rows = {row["id"]: row["state"] for row in as_json(jobboard("schedule", "ls", "--json"))}
        assert rows == {"good": "active", "bad": "unreadable"}
        jobboard("check", "--repair")
        assert "decoded" in jobboard("schedule", "show", "bad", status=REFUSED)
        jobboard("schedule", "rm", "bad")
        assert [schedule.id for schedule in board.schedules] == ["good"]


class TestRunning:
    def test_a_scheduler_posts_until_sigterm(self, board: JobBoard) -> None:
        board.schedules.add(Schedule("tick", Every(seconds=1), "write", max_instances=None))
        with running("scheduler", "--label", "clock"):
            eventually(lambda: board.job_count >= 2, within=20)
            assert [entity.kind for entity in board.entities()] == ["scheduler"]
        assert board.entities() == []

    def test_a_conductor_with_a_scheduler_is_all_that_is_needed(self, board: JobBoard, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(
            "from jobboard import Handlers\nhandlers = Handlers()\n"
            "@handlers.handler('write')\ndef write(job):\n    return job.fire_time.isoformat()\n"
        )
        board.schedules.add(Schedule("tick", Every(seconds=1), "write"))
        with running("conductor", "mine:handlers", "--with-scheduler", cwd=tmp_path):
            eventually(lambda: board.schedules.get("tick").progress.runs >= 2, within=20)  # type: ignore[union-attr]
            kinds = eventually(lambda: {entity.kind for entity in board.entities()})
        assert kinds == {"conductor", "scheduler"}
