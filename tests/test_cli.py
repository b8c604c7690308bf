"""The command line as users run it: real processes on real SQLite boards."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command_line import Run, as_json, process

from jobboard import EventKind, JobBoard, JobEvent, Posting
from jobboard.cli.app import BUG, INTERRUPTED, OK, REFUSED, UNAVAILABLE, USAGE, run
from jobboard.cli.conducting import EXIT_STUCK
from jobboard.cli.session import me
from jobboard.cli.waiting import TIMED_OUT
from jobboard.testing import eventually

pytest_plugins = ("helpers.command_fixtures",)


class TestPosting:
    def test_post_prints_the_tracking_id(self, jobboard: Run, board: JobBoard) -> None:
        uuid = jobboard("post", "resize", "--details", '{"path": "/a"}', "--key", "k", "--priority", "HIGH").strip()
        job = board.get(uuid)
        assert (job.name, job.details, job.key, job.priority.name) == ("resize", {"path": "/a"}, "k", "HIGH")

    def test_details_come_from_a_file(self, jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
        file = tmp_path / "details.json"
        file.write_text('{"n": 1}')
        assert board.get(jobboard("post", "a", "--details", f"@{file}").strip()).details == {"n": 1}

    def test_details_come_from_standard_input(self, uri: str, board: JobBoard) -> None:
        done = process("post", "a", "--details", "-", input='{"n": 2}')
        assert board.get(done.stdout.strip()).details == {"n": 2}

    @pytest.mark.parametrize(
        "arguments",
        [
            ["post"], ["post", "a", "--details", "[1]"], ["post", "a", "--details", "{"],
            ["post", "a", "--run-at", "x"], ["post", "a", "--run-at", "2030-01-01T00:00"],
            ["post", "a", "--priority", "urgent"], ["nonsense"], ["restore"], ["restore", "--all", "--job-name", "x"],
            ["conductor", "nonsense"], ["conductor", "no.such:handlers"], ["conductor", "json:handlers"],
            ["post", "a", "--delay", "soon"], ["conductor", "helpers.work:handlers", "--executor", "x"],
            ["conductor", "helpers.work:handlers", "--expiry", "0"],
            ["conductor", "helpers.work:handlers", "--drain", "-1"], ["scheduler", "--label", ""],
            ["post", "a\n"], ["post", "a", "--delay", "-1"], ["post", "a", "--uuid", "x"], ["pause", ""],
            ["post", "a", "--max-attempts", "0"], ["post", "a", "--details", '{"n": 99999999999999999999}'],
            ["post", "a", "--details", '{"n": NaN}'], ["post", "a", "--details", '{"n": [-Infinity]}'],
            ["post", "a", "--details", '{"n": 1e999}'], ["post", "a", "--details", "@/no/such/file"],
            ["post", "a", "--name", ""], ["post", "a", "--board", "nope"],
            ["ls", "--config", "/no/such/file"], ["import", "/no/such/file"], ["import", __file__],
        ],
    )  # fmt: skip
    def test_wrong_usage_is_status_2(self, jobboard: Run, board: JobBoard, arguments: list[str]) -> None:
        jobboard(*arguments, status=USAGE)
        assert board.job_count == 0

    @pytest.mark.parametrize(
        "command",
        [
            "post a --delay", "ls --older-than", "schedule add s a --every", "schedule add s a --every 30s --jitter",
            "status --max-wait", "status --watch --for", "watch --for", "doctor --timeout",
            "conductor helpers.work:handlers --drain", "conductor helpers.work:handlers --expiry",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("span", ["99999999999d", "-5"])
    def test_a_span_that_is_refused_is_shown_as_it_was_given(self, jobboard: Run, command: str, span: str) -> None:
        *words, option = command.split()
        told = jobboard(*words, option, span, status=USAGE)
        assert told.startswith(f"jobboard: Invalid value for '{option}': {span!r} is ")
        assert " no time span" not in told

    @pytest.mark.parametrize(
        "arguments",
        [
            ["show", "ffffffff"], ["show", "zz"], ["show", "a:b"], ["cancel", "a:b"], ["restore", "ffffffff"],
        ],
    )  # fmt: skip
    def test_a_refusal_is_one_line_and_status_1(self, jobboard: Run, arguments: list[str]) -> None:
        jobboard(*arguments, status=REFUSED)

    def test_a_taken_key_is_refused(self, jobboard: Run) -> None:
        uuid = jobboard("post", "a", "--key", "k").strip()
        assert uuid in jobboard("post", "a", "--key", "k", status=REFUSED)
        assert jobboard("post", "a", "--key", "k", "--if-exists", "keep").strip() == uuid

    def test_a_job_that_is_kept_and_was_asked_to_stop_is_told_of(
        self, board: JobBoard, uri: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        job = board.post("a", key="k")
        board.claim(job, "alice")
        for warnings in (0, 1):
            assert run(["post", "a", "--key", "k", "--if-exists", "keep"]) == 0
            out, err = capsys.readouterr()
            assert (out.strip(), err.count("asked to stop")) == (job.uuid, warnings)
            board.cancel(job)

    def test_cancel(self, jobboard: Run, board: JobBoard) -> None:
        waiting, claimed = board.post("a"), board.post("b")
        board.claim(claimed, "alice")
        assert "is cancelled" in jobboard("cancel", waiting.uuid)
        assert as_json(jobboard("cancel", claimed.uuid, "--json")) == {"uuid": claimed.uuid, "gone": False}
        jobboard("cancel", waiting.uuid, status=REFUSED)

    def test_cancel_by_name_and_key_prefix(self, jobboard: Run, board: JobBoard) -> None:
        for key in ("order/7/first", "order/7/second", "order/8/first"):
            board.post("remind", key=key)
        which = ("--job-name", "remind", "--key-prefix", "order/7/")
        assert "cancel 2 jobs named 'remind' (--job-name remind, --key-prefix order/7/)? Say --yes" in jobboard(
            "cancel", *which, status=USAGE
        )
        assert board.job_count == 3
        assert as_json(jobboard("cancel", *which, "--yes", "--json")) == {"cancelled": 2, "refused": []}
        assert jobboard("cancel", *which, "--yes") == "0 jobs cancelled\n"
        assert [job.key for job in board.iterjobs()] == ["order/8/first"]

    @pytest.mark.parametrize(
        "arguments", [[], ["--yes"], ["--limit", "3"], ["ffff", "--job-name", "a"], ["--all", "--state", "delayed"]]
    )
    def test_cancel_needs_to_know_which(self, jobboard: Run, arguments: list[str]) -> None:
        jobboard("cancel", *arguments, status=USAGE)


class TestStore:
    @pytest.mark.parametrize("where", ["sqlite:////no/such/directory/jobs.db", "sqlite:////etc"])
    def test_a_store_that_cannot_be_used_is_status_3(
        self, jobboard: Run, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        monkeypatch.setenv("JOBBOARD_URI", where)
        jobboard("ls", status=UNAVAILABLE)

    @pytest.mark.parametrize("where", ["nonsense://x", "sqlite:///a.db?colour=red", "sqlite://host/a.db", "nonsense"])
    @pytest.mark.parametrize("command", ["ls", "status", "doctor"])
    def test_a_wrong_uri_is_wrong_usage(self, jobboard: Run, where: str, command: str) -> None:
        jobboard("--board", where, command, status=USAGE)

    def test_a_board_has_to_be_named(self, jobboard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("JOBBOARD_URI")
        assert "JOBBOARD_URI" in jobboard("ls", status=USAGE)


class TestLooking:
    def test_ls(self, jobboard: Run, board: JobBoard) -> None:
        board.post("low", priority="low")
        board.post("high", priority="high")
        assert [row["name"] for row in as_json(jobboard("ls", "--json"))] == ["high", "low"]
        assert [row["name"] for row in as_json(jobboard("--json", "ls", "--job-name", "low"))] == ["low"]
        assert len(as_json(jobboard("ls", "--limit", "1", "--json"))) == 1
        lines = jobboard("ls").splitlines()
        assert lines[0].startswith("uuid\tname\t")
        assert len(lines) == 3
        assert jobboard("ls", "--state", "trashed") == "no jobs\n"

    def test_show_by_uuid_by_its_end_and_by_key(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("invoice", details={"secret": "x"}, key="4711")
        for name in (job.uuid, job.uuid[-8:], "invoice:4711"):
            view = as_json(jobboard("show", name, "--json"))
            assert (view["uuid"], view["history"][0]["kind"]) == (job.uuid, "POSTED")
            assert "details" not in view
        assert "secret" not in jobboard("show", job.uuid)
        assert "secret" in jobboard("show", job.uuid, "--details")

    def test_what_a_job_carries_does_not_steer_the_terminal(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("a", details={"x": "\x1b[2J"})
        board.trash(job, by="me", reason="\x1b]0;title\x07")
        for line in (jobboard("trashed"), jobboard("show", job.uuid, "--details"), jobboard("why", job.uuid)):
            assert "\x1b" not in line
            assert "\x07" not in line

    def test_why(self, jobboard: Run, board: JobBoard) -> None:
        first, second, delayed = board.post("a"), board.post("a"), board.post("a", delay=1000)
        assert "No conductor" in jobboard("why", first.uuid)
        assert "1 job comes before it" in jobboard("why", second.uuid)
        assert "delayed until" in jobboard("why", delayed.uuid)
        board.pause("a")
        assert "paused" in jobboard("why", first.uuid)
        board.resume("a")
        board.claim(first, "alice")
        assert "claimed by alice" in jobboard("why", first.uuid)
        board.consume(first, "alice")
        assert "complete" in jobboard("why", first.uuid)
        board.trash(second, by="me", reason="it is bad")
        (reason,) = as_json(jobboard("why", second.uuid, "--json"))["reasons"]
        assert (reason["kind"], reason["text"][:30]) == ("trashed", "It is in the trash: it is bad.")

    def test_owners_stats_and_entities(self, jobboard: Run, board: JobBoard) -> None:
        assert as_json(jobboard("owners", "--json")) == as_json(jobboard("entities", "--json")) == []
        for _ in range(3):
            board.post("a")
        board.claim_next("alice", limit=2)
        (row,) = as_json(jobboard("owners", "--json"))
        assert (row["owner"], row["jobs"], row["names"]) == ("alice", 2, ["a"])
        stats = as_json(jobboard("stats", "--json"))
        assert (stats["claimed"], stats["unclaimed"], stats["names"]["a"]["claimed"]) == (2, 1, 2)
        assert stats["paused"] == {"board": False, "names": [], "pauses": [], "lanes": []}
        assert "a\t0\t1\t2\t0\n" in jobboard("stats")

    def test_stats_count_blocked_jobs_where_there_are_some(self, jobboard: Run, board: JobBoard) -> None:
        board.limits.set(lane="tenant:1", running=1)
        board.post_many([Posting("a", lane="tenant:1")] * 3)
        stats = as_json(jobboard("stats", "--json"))
        assert (stats["blocked"], stats["names"]["a"]["blocked"]) == (2, 2)
        assert "a\t0\t1\t0\t0\t2\n" in jobboard("stats")

    def test_watch_tells_what_happens(self, uri: str, board: JobBoard, tmp_path: Path) -> None:
        told = tmp_path / "told"
        command = [sys.executable, "-m", "jobboard", "watch", "--kind", "posted", "--json"]
        with told.open("w") as out:
            watcher = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)

        def is_told() -> bool:
            board.post("seen")
            return bool(told.read_text())

        try:
            eventually(is_told, within=60, every=0.1)
            assert json.loads(told.read_text().splitlines()[0])["name"] == "seen"
            watcher.send_signal(signal.SIGINT)
            _, err = watcher.communicate(timeout=60)
            assert (watcher.returncode, err) == (130, "")
        finally:
            watcher.kill()
            watcher.communicate()


class TestOperating:
    def test_release_and_trash(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("a")
        board.claim(job, "alice")
        assert "is released" in jobboard("release", job.uuid, "--note", "its host is gone")
        assert board.get(job.uuid).record.state.value == "UNCLAIMED"
        jobboard("release", job.uuid, status=REFUSED)
        assert "is in the trash" in jobboard("trash", job.uuid, "--note", "bad")
        assert "bad" in jobboard("trashed")

    def test_run_now(self, jobboard: Run, board: JobBoard) -> None:
        jobs = [board.post(name, delay=1000, key=name) for name in ("a", "b", "c")]
        assert jobboard("run-now", "a:a") == "1 job named 'a' made claimable\n"
        assert "is not delayed" in jobboard("run-now", "a:a", status=REFUSED)
        assert "run now 1 job named 'b' (--key b)? Say --yes" in jobboard("run-now", "--key", "b", status=USAGE)
        assert as_json(jobboard("run-now", "--all", "--yes", "--json")) == {"made_claimable": 2, "refused": []}
        assert board.claim_next("alice", limit=5) == jobs

    def test_a_part_of_a_key_and_a_detail(
        self, jobboard: Run, board: JobBoard, capsys: pytest.CaptureFixture[str]
    ) -> None:
        jobs = [board.post("a", key=f"order/{n}/x", details={"order": {"id": n}}) for n in range(4)]
        found = as_json(jobboard("ls", "--key-contains", "/2/", "--json"))
        assert [job["uuid"] for job in found] == [jobs[2].uuid]
        assert as_json(jobboard("cancel", "--detail", "order.id=3", "--yes", "--json"))["cancelled"] == 1
        assert run(["cancel", "--key-contains", "x", "--scan", "2"]) == USAGE
        assert "looked at the first 2 jobs only" in (asked := capsys.readouterr().err)
        assert "cancel 2 jobs named 'a' (--key-contains x, --scan 2)?" in asked
        assert run(["ls", "--key-contains", "x", "--scan", "2"]) == 0
        out, err = capsys.readouterr()
        assert (out.count("order/"), "looked at the first 2 jobs only" in err) == (2, True)
        assert "--detail needs NAME=VALUE" in jobboard("ls", "--detail", "order.id", status=USAGE)

    def test_reprioritize(self, jobboard: Run, board: JobBoard) -> None:
        jobs = [board.post(name, key=name) for name in ("a", "b", "c", "d")]
        assert jobboard("reprioritize", "b:b", "--priority", "high", "--note", "x") == "1 job named 'b' reprioritized\n"
        line = jobs[1].history[-1]
        assert ("@" in (line.who or ""), line.reason) == (True, "to HIGH: x")
        assert "reprioritize 1 job named 'a' (--key a)? Say --yes" in jobboard(
            "reprioritize", "--key", "a", "--priority", "low", status=USAGE
        )
        assert "--priority" in jobboard("reprioritize", "a:a", status=USAGE)
        board.claim(jobs[2], "alice")
        assert "claimed" in jobboard("reprioritize", jobs[2].uuid, "--priority", "low", status=REFUSED)
        done = as_json(jobboard("reprioritize", "--all", "--priority", "low", "--yes", "--json"))
        assert done == {"reprioritized": 3, "refused": []}
        assert [str(job.priority) for job in board.iterjobs()] == ["NORMAL", "LOW", "LOW", "LOW"]

    def test_restore_one_some_all(self, jobboard: Run, board: JobBoard) -> None:
        jobs = [board.post(name) for name in ("a", "b", "b", "c", "c")]
        for job, reason in zip(jobs, ("x", "disk full", "net", "disk full", "net"), strict=True):
            board.trash(job, by="me", reason=reason)
        assert jobboard("restore", jobs[0].uuid) == "1 job named 'a' restored\n"
        assert jobboard("restore", "--job-name", "b", "--reason", "disk", "--yes") == "1 job named 'b' restored\n"
        assert as_json(jobboard("restore", "--older-than", "3600", "--yes", "--json"))["restored"] == 0
        assert jobboard("restore", "--all", "--yes") == "3 jobs (2 c, 1 b) restored\n"
        assert board.job_count == 5

    def test_without_a_yes_and_a_terminal_nothing_happens(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("a")
        board.trash(job, by="me")
        for command in (["purge", "--all"], ["purge", job.uuid], ["restore", "--all"], ["restore", "--job-name", "a"]):
            assert "--yes" in jobboard(*command, status=USAGE)
        assert list(board.trashed()) == [job]
        assert jobboard("purge", "--all", "--yes") == "1 job named 'a' purged\n"
        assert list(board.trashed()) == []

    def test_a_job_that_is_not_in_the_trash_is_told_as_it_stands(self, jobboard: Run, board: JobBoard) -> None:
        waiting, claimed, done = (board.post(name) for name in "abc")
        board.claim(claimed, "ann")
        board.claim(done, "ann")
        board.consume(done, "ann")
        for verb in (["restore"], ["purge", "--yes"]):
            for job, how in ((done, "is complete"), (claimed, "it is claimed"), (waiting, "it is unclaimed")):
                assert how in jobboard(*verb, job.uuid, status=REFUSED)

    def test_what_cannot_be_restored_is_told(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("a", key="k")
        board.trash(job, by="me")
        board.post("a", key="k")
        jobboard("restore", job.uuid, status=REFUSED)

    def test_pause_and_resume(self, jobboard: Run, board: JobBoard) -> None:
        board.post("a")
        told = jobboard("pause", "a", "--by", "ada", "--note", "disk full")
        assert told.startswith("paused: a (by ada since 20")
        assert told.endswith(": disk full)\n")
        paused = as_json(jobboard("pause", "--json"))
        assert (paused["board"], paused["names"], board.paused()) == (True, ["a"], {None, "a"})
        assert [(pause["name"], pause["by"], pause["reason"]) for pause in paused["pauses"]] == [
            (None, me(), None), ("a", "ada", "disk full"),
        ]  # fmt: skip
        jobboard("pause", "a", "--by", "bob")
        assert as_json(jobboard("stats", "--json"))["paused"] == paused
        assert jobboard("resume") == f"the board is resumed; {told}"
        for name in ("b", "a b"):
            assert jobboard("resume", name) == f"the name {name!r} was not paused; {told}"
        assert jobboard("resume") == f"the board was not paused; {told}"
        assert jobboard("resume", "--lane", "api") == f"the lane api was not paused; {told}"
        assert jobboard("resume", "a") == "the name 'a' is resumed; nothing is paused\n"

    @pytest.mark.parametrize(
        ("verb", "expected"),
        [
            ("cancel", ("CANCEL_ASKED", "alice")), ("release", ("RELEASED", "alice")), ("trash", ("TRASHED", "ada")),
            ("run-now", ("DUE", "ada")), ("reprioritize", ("REPRIORITIZED", "ada")), ("restore", ("RESTORED", "ada")),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("which", ["JOB", "--all"])
    def test_every_verb_tells_by_whom_and_why(
        self, jobboard: Run, board: JobBoard, verb: str, expected: tuple[str, str], which: str
    ) -> None:
        job = board.post("a", delay=60 if verb == "run-now" else None)
        if verb in ("cancel", "release", "trash"):
            board.claim(job, "alice")
        if verb == "restore":
            board.trash(job)
        chosen = [job.uuid] if which == "JOB" else ["--all", "--yes"]
        given = ["--priority", "high"] if verb == "reprioritize" else []
        jobboard(verb, *chosen, *given, "--by", "ada", "--note", "disk full")
        line = job.history[-1]
        assert (line.kind.value, line.who) == expected
        assert "disk full" in (line.reason or "")
        assert "ada" in f"{line.who} {line.reason}"

    def test_a_purge_tells_by_whom_and_why(self, jobboard: Run, board: JobBoard) -> None:
        job, told = board.post("a"), list[JobEvent]()
        board.trash(job)
        board.subscribe(told.append, [EventKind.PURGED])
        jobboard("purge", job.uuid, "--yes", "--by", "ada", "--note", "not wanted")
        eventually(
            lambda: [(event.uuid, event.who, event.reason) for event in told] == [(job.uuid, "ada", "not wanted")]
        )

    def test_a_pause_of_a_name_that_no_job_has_is_told(
        self, board: JobBoard, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["pause", "invoce"]) == 0
        told = capsys.readouterr()
        assert (board.paused(), told.err) == ({"invoce"}, "no job on the board is named 'invoce' now\n")

    def test_check_finds_and_repairs(self, jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
        job = board.post("a")
        assert jobboard("check") == "all records agree\n"
        with sqlite3.connect(tmp_path / "jobs.db") as connection:
            connection.execute("UPDATE jobboard_jobs SET state = 2 WHERE uuid = ?", (job.uuid,))
        connection.close()
        done = process("check", "--json")
        assert done.returncode == 1
        assert json.loads(done.stdout)[0]["uuid"] == job.uuid
        assert as_json(jobboard("check", "--repair", "--json"))[0]["repaired"] is True
        assert jobboard("check") == "all records agree\n"
        assert board.claim_next("alice") == [job]


class TestMigrate:
    def test_tables_are_made_once(self, jobboard: Run, tmp_path: Path) -> None:
        new = ["migrate", "--board", f"sqlite:///{tmp_path}/new.db"]
        assert jobboard(*new) == "the layout is 7; there was none\n"
        assert jobboard(*new) == "the layout is 7, as it was\n"
        assert as_json(jobboard(*new, "--json")) == {"store": "sqlite", "found": "7", "now": "7", "mended": []}

    def test_what_is_newer_is_refused(self, jobboard: Run, tmp_path: Path) -> None:
        jobboard("migrate")
        with sqlite3.connect(tmp_path / "jobs.db") as connection:
            connection.execute("UPDATE jobboard_meta SET value = '8' WHERE name = 'version'")
        connection.close()
        assert "made by a newer jobboard (schema 8, this one reads 7)" in jobboard("migrate", status=UNAVAILABLE)


class TestProcess:
    def test_every_command_has_help_with_examples(self, jobboard: Run) -> None:
        from jobboard.cli.app import cli

        told = jobboard("--help")
        assert "JOBBOARD_URI" in told
        assert all(f" {status} " in told for status in (OK, 1, USAGE, 3, BUG, INTERRUPTED, EXIT_STUCK, TIMED_OUT))
        for name, command in cli.commands.items():
            parts = getattr(command, "commands", {})
            for words in [[name], *([name, part] for part in parts)]:
                assert f"jobboard {' '.join(words)}" in jobboard(*words, "--help")
                assert "Examples:" in jobboard(*words, "--help")

    def test_what_help_lists_is_what_commands_say_of_themselves(self) -> None:
        from jobboard.cli.app import cli
        from jobboard.cli.commands import summary_of

        for name, command in cli.commands.items():
            assert summary_of(name) == command.get_short_help_str(limit=1000)

    def test_a_reader_that_goes_away_is_no_traceback(self, uri: str, board: JobBoard) -> None:
        board.post_many([Posting("a" * 200)] * 200)
        command = f"{sys.executable} -m jobboard ls --limit 0 | head -1"
        done = subprocess.run(command, shell=True, text=True, capture_output=True, timeout=60, check=False)
        assert (done.stdout.count("\n"), done.stderr) == (1, "")

    def test_a_conductor_works_until_sigterm(self, uri: str, board: JobBoard, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(
            "from jobboard import Handlers\nhandlers = Handlers()\n"
            "@handlers.handler('double')\ndef double(job):\n    return 2 * job.details['n']\n"
        )
        command = [sys.executable, "-m", "jobboard", "conductor", "mine:handlers", "--drain", "5"]
        conductor = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            job = board.post("double", details={"n": 21})
            assert job.wait(30)
            assert job.result == 42
            conductor.send_signal(signal.SIGTERM)
            out, err = conductor.communicate(timeout=60)
            assert (conductor.returncode, board.entities()) == (0, [])
            assert "works on board 'test'" in out
            assert "Traceback" not in err
        finally:
            conductor.kill()
            conductor.communicate()

    def test_without_click_the_missing_extra_is_named(self) -> None:
        code = "import sys; sys.modules['click'] = None; import jobboard.cli; jobboard.cli.main()"
        done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, check=False)
        assert done.returncode == USAGE
        assert done.stderr == "jobboard: the command line needs click: pip install 'jobboard[cli]'\n"
