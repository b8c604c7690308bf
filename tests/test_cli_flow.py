"""The command line about jobs that wait for others, or for a signal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from helpers.command_line import Run, as_json
from helpers.graphs import end, post_graph

from jobboard import Job, JobBoard, JobPriority, JobState, Posting
from jobboard.backends.rows import Abandonment, Fence
from jobboard.board import client_of
from jobboard.cli.app import run
from jobboard.operate.with_children import family_of

pytest_plugins = ("helpers.command_fixtures",)

PIPELINE = {"fetch": [], "resize": ["fetch"], "scan": ["fetch"], "page": ["resize", "scan"]}


def states(jobs: dict[str, Job]) -> dict[str, str]:
    return {name: job.state.value.lower() for name, job in jobs.items()}


class TestPost:
    def test_after_names_jobs_as_everywhere(self, jobboard: Run, board: JobBoard) -> None:
        first, second = board.post("a", key="1"), board.post("a")
        uuid = jobboard("post", "b", "--after", "a:1", "--after", second.uuid[-12:], "--if-failed", "run").strip()
        assert {parent.uuid for parent in board.get(uuid).parents()} == {first.uuid, second.uuid}
        board.trash(first)
        board.trash(second)
        assert board.get(uuid).state is JobState.UNCLAIMED
        assert "no job" in jobboard("post", "b", "--after", "a:2", status=1)

    def test_moments(self, jobboard: Run, board: JobBoard) -> None:
        def post(*options: str, status: int = 0) -> str:
            return jobboard("post", "index", "--key", "1", *options, status=status)

        first = post("--delay", "1h", "--max-delay", "2h", "--key-for", "3h").strip()
        assert post("--delay", "5h", "--if-exists", "replace").strip() == first
        job = board.get(first)
        assert job.run_at is not None
        assert (job.run_at - job.created_on).total_seconds() == pytest.approx(7200, abs=1)
        uuid = jobboard("post", "report", "--start-by", "2030-01-31T09:00+01:00").strip()
        assert "2030-01-31 08:00:00 UTC, it goes to the trash" in jobboard("why", uuid)
        assert "offset" in jobboard("post", "report", "--start-by", "2030-01-31", status=2)


class TestWhy:
    def test_a_job_that_was_cancelled_with_its_parent_is_named_with_that(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, {"plan": [], "other": [], "gone": []})
        failing = [board.post("child", after=list(jobs.values()), if_failed="cancel") for _ in range(3)]
        board.post("grandchild", after=failing[:1])
        by_hand = board.post("child", after=[jobs["other"]])
        board.cancel(by_hand)
        board.trash(jobs["plan"], by="ann", reason="bad")
        for child in failing:
            said = jobboard("why", child.uuid, status=1)
            assert f"no job {child.uuid} on board" in said
            assert f"its parent {jobs['plan'].uuid} (plan) is in the trash" in said
        assert "it was cancelled" in jobboard("why", by_hand.uuid, status=1)
        unknown = "01234567-89ab-7cde-8f01-23456789abcd"
        for text in (unknown, "nope", "a:1"):
            assert "cancelled" not in jobboard("why", text, status=1)


class TestShow:
    def test_show_has_the_milliseconds_of_each_change(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("a")
        board.trash(job, reason="bad")
        board.restore(job)
        lines = as_json(jobboard("show", job.uuid, "--json"))["history"]
        told = [line.split("\t")[0] for line in jobboard("show", job.uuid).splitlines()[-3:]]
        moments = [datetime.fromisoformat(line["at"]).replace(tzinfo=None) for line in lines]
        assert told == [f"{at.isoformat(' ', 'milliseconds')} UTC" for at in moments]

    def test_a_tree_with_a_star_at_the_job_and_a_summary(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, PIPELINE)
        end(board, jobs["fetch"])
        board.trash(jobs["scan"], reason="bad")
        short = {name: job.uuid[-8:] for name, job in jobs.items()}
        lines = jobboard("show", jobs["scan"].uuid, "--graph").splitlines()
        assert lines[0].startswith(f"fetch {short['fetch']}  complete ")
        assert f"─ * scan {short['scan']}  trashed" in lines[1] + lines[3]
        assert sum(f"─ page {short['page']}  blocked, waits for parents" in line for line in lines) == 2
        assert lines[-3] == "4 jobs: 1 trashed, 1 blocked, 1 unclaimed, 1 complete"
        assert lines[-2].startswith("not over; posted ")
        assert lines[-2].endswith("; 1 job waits for what is in the trash")
        assert lines[-1] == f"trashed: scan {short['scan']}: bad"
        end(board, jobs["resize"])
        told = jobboard("show", jobs["page"].uuid, "--graph").splitlines()[-2]
        assert told.startswith("stands still since ")
        assert told.endswith(" after it was posted: 1 job waits for what is in the trash")
        plain = as_json(jobboard("show", jobs["page"].uuid, "--graph", "--json"))
        assert plain["over"] is plain["whole"] is True
        assert plain["states"] == {"TRASHED": 1, "BLOCKED": 1, "COMPLETE": 2}
        assert {node["name"]: (node["held"], node["reason"], node["result"]) for node in plain["nodes"]} == {
            "fetch": (False, None, {"ok": True}), "resize": (False, None, {"ok": True}),
            "scan": (False, "bad", None), "page": (True, None, None),
        }  # fmt: skip
        ran = {node["name"]: node["seconds"] is not None for node in plain["nodes"] if node["owner"] == "worker"}
        assert ran == {"fetch": True, "resize": True}

    @pytest.mark.parametrize(("form", "first"), [("dot", "digraph jobs {"), ("mermaid", "flowchart LR")])
    def test_formats(self, jobboard: Run, board: JobBoard, form: str, first: str) -> None:
        jobs = post_graph(board, PIPELINE)
        text = jobboard("show", jobs["page"].uuid, "--graph", "--format", form)
        assert text.startswith(first)
        assert text.count("->") == 4 if form == "dot" else text.count("-->") == 4

    def test_more_than_two_hundred_jobs_are_folded_but_in_json(self, jobboard: Run, board: JobBoard) -> None:
        plan = Posting("plan")
        parts = [Posting("part", after=[plan]) for _ in range(300)]
        uuid = board.post_many([plan, *parts, *(Posting("mail", after=[part]) for part in parts)])[0].uuid
        assert jobboard("show", uuid, "--graph").splitlines()[:-1] == [
            f"* plan {uuid[-8:]}  unclaimed",
            "└─ 300 x part  blocked, waits for parents",
            "   └─ 300 x mail  blocked, waits for parents",
            "601 jobs: 600 blocked, 1 unclaimed",
        ]
        assert len(jobboard("show", uuid, "--graph", "--no-fold").splitlines()) == 603
        for options in (("--json",), ("--format", "json")):
            plain = as_json(jobboard("show", uuid, "--graph", *options))
            assert (len(plain["nodes"]), len(plain["edges"]), plain["folded"]) == (601, 600, False)

    def test_the_parents_of_a_job_and_its_signals_are_with_it(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, PIPELINE)
        end(board, jobs["fetch"])
        board.trash(jobs["scan"], reason="bad")
        board.signal(jobs["page"], "approved", {"secret": 1})
        text = jobboard("show", jobs["page"].uuid)
        assert "0 of 2, 1 failed" in text
        assert "\tsignal sent\tapproved\n" in text
        assert "secret" not in text
        assert '\tsignal sent\tapproved\t{"secret": 1}\n' in jobboard("show", jobs["page"].uuid, "--details")
        (signal,) = as_json(jobboard("show", jobs["page"].uuid, "--details", "--json"))["signals"]
        assert signal["value"] == {"secret": 1}
        view = as_json(jobboard("show", jobs["page"].uuid, "--json"))
        assert "secret" not in str(view)
        assert view["parents"] == {"total": 2, "done": 0, "failed": 1, "gone": 0}
        assert (view["waits_for"], view["steps"], [each["name"] for each in view["signals"]]) == (
            "parents",
            [],
            ["approved"],
        )

    def test_its_options_need_the_graph(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("a")
        assert "--graph" in jobboard("show", job.uuid, "--format", "dot", status=2)
        assert "--graph" in jobboard("show", job.uuid, "--no-fold", status=2)


class TestLs:
    def test_it_says_what_a_blocked_job_waits_for(self, jobboard: Run, board: JobBoard) -> None:
        board.limits.set(lane="tenant:1", running=1)
        board.post("c", lane="tenant:1")
        board.post("c", lane="tenant:1")
        parent = board.post("a")
        board.post("b", after=[parent])
        text = jobboard("ls", "--columns", "name,waits_for", "--state", "blocked")
        assert sorted(text.splitlines()) == ["b\tparents", "c\tlane tenant:1", "name\twaits_for"]
        assert [row["waits_for"] for row in as_json(jobboard("ls", "--json", "--job-name", "b"))] == ["parents"]


class TestSignal:
    def test_it_is_sent_once(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("order", key="4711")
        assert "has the signal approved" in jobboard("signal", "order:4711", "approved", "--value", '{"by": "ann"}')
        assert "had the signal already" in jobboard("signal", job.uuid, "approved", "--value", "2")
        (signal,) = job.signals()
        assert (signal.name, signal.value) == ("approved", {"by": "ann"})
        assert job.history[-1].who != "tester"
        answer = as_json(jobboard("signal", job.uuid, "paid", "--by", "tester", "--json"))
        assert answer == {"uuid": job.uuid, "signal": "paid", "new": True}
        assert job.history[-1].who == "tester"

    def test_one_that_the_job_does_not_wait_for_says_what_it_waits_for(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("order")
        token, client = board.claim(job, "worker"), client_of(board)
        wish = Abandonment(Fence(job.uuid, "worker", token), counted=False, signal="approved")
        client.call(client.backend.jobs.abandon, [wish])
        assert "goes on waiting for the signal approved" in jobboard("signal", job.uuid, "aproved")
        assert job.state is JobState.BLOCKED
        assert "waiting" not in jobboard("signal", job.uuid, "approved")

    def test_bad_ones_are_refused_by_name(self, jobboard: Run, board: JobBoard) -> None:
        job = board.post("order")
        assert "--value is no JSON" in jobboard("signal", job.uuid, "approved", "--value", "{", status=2)
        end(board, job)
        assert "is not on the board any more" in jobboard("signal", job.uuid, "approved", status=1)
        assert list(job.signals()) == []


class TestImport:
    @pytest.mark.parametrize("delay", [None, 1000])
    def test_a_job_that_waits_for_parents_is_refused_by_name(
        self, jobboard: Run, board: JobBoard, tmp_path: Path, delay: float | None
    ) -> None:
        parent = board.post("a")
        waiting = board.post("b", after=[parent], delay=delay)
        file = tmp_path / "jobs.jsonl"
        file.write_text(jobboard("export", "--details"))
        board.cancel(waiting)
        text = jobboard("import", str(file), status=1)
        assert f"job {waiting.uuid} is not imported: it waits for parents" in text
        assert [job.uuid for job in board.iterjobs()] == [parent.uuid]


class TestWithChildren:
    def test_a_dry_run_lists_the_last_children_first_and_changes_nothing(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, {**PIPELINE, "else": []})
        rows = as_json(jobboard("cancel", jobs["fetch"].uuid, "--with-children", "--dry-run", "--json"))
        assert (rows[0]["name"], rows[-1]["name"]) == ("page", "fetch")
        assert {row["state"] for row in rows} == {"BLOCKED", "UNCLAIMED"}
        assert len(rows) == 4
        assert states(jobs) == dict.fromkeys(PIPELINE, "blocked") | {"fetch": "unclaimed", "else": "unclaimed"}

    def test_it_asks_first_and_names_what(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, PIPELINE)
        text = jobboard("cancel", jobs["resize"].uuid, "--with-children", status=2)
        assert "cancel 2 jobs (1 page, 1 resize)? Say --yes" in text
        assert "blocked" in states(jobs)["resize"]

    def test_cancel_takes_all_of_them_and_nothing_else(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, PIPELINE)
        assert "2 jobs" in jobboard("cancel", jobs["resize"].uuid, "--with-children", "--yes")
        assert sorted(job.name for job in board.iterjobs()) == ["fetch", "scan"]
        assert board.stats().trashed == 0

    def test_trash_and_restore(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, PIPELINE)
        uuid = jobs["fetch"].uuid
        data = as_json(jobboard("trash", uuid, "--with-children", "--yes", "--note", "wrong input", "--json"))
        assert data == {"trashed": 4, "left_out": 0, "refused": []}
        assert set(states(jobs).values()) == {"trashed"}
        assert jobs["page"].record.reason == "wrong input"
        assert "4 jobs" in jobboard("restore", uuid, "--with-children", "--yes")
        assert states(jobs) == dict.fromkeys(PIPELINE, "blocked") | {"fetch": "unclaimed"}
        for name in PIPELINE:
            end(board, jobs[name])
        assert set(states(jobs).values()) == {"complete"}

    def test_reprioritize_takes_what_waits(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, {**PIPELINE, "else": []})
        end(board, jobs["fetch"])
        board.claim(jobs["scan"], "w")
        arguments = ("reprioritize", jobs["fetch"].uuid, "--with-children", "--priority", "very_high")
        rows = as_json(jobboard(*arguments, "--dry-run", "--json"))
        assert [(row["name"], row["state"]) for row in rows] == [("page", "BLOCKED"), ("resize", "UNCLAIMED")]
        data = as_json(jobboard(*arguments, "--yes", "--note", "the morning needs it", "--json"))
        assert data == {"reprioritized": 2, "left_out": 2, "refused": []}
        urgent = {name for name, job in jobs.items() if board.get(job.uuid).priority is JobPriority.VERY_HIGH}
        assert urgent == {"page", "resize"}

    def test_only_what_is_in_a_fitting_state_is_taken(self, jobboard: Run, board: JobBoard) -> None:
        jobs = post_graph(board, PIPELINE)
        end(board, jobs["fetch"])
        board.trash(jobs["scan"], reason="bad")
        data = as_json(jobboard("restore", jobs["fetch"].uuid, "--with-children", "--yes", "--json"))
        assert data == {"restored": 1, "left_out": 3, "refused": []}
        assert states(jobs)["scan"] == "unclaimed"

    @pytest.mark.usefixtures("jobboard")
    def test_restore_warns_of_jobs_that_went_on_without_their_parents(
        self, board: JobBoard, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def warning(*options: str) -> str:
            run(["restore", fetch.uuid, "--with-children", *options])
            return capsys.readouterr().err

        fetch = board.post("fetch")
        running, failed, scanned = (board.post(name, after=[fetch], if_failed="run") for name in ("resize", "b", "b"))
        board.trash(fetch)
        for job in (running, failed, scanned):
            board.claim(job, "worker")
        board.trash(failed, "worker")
        board.consume(scanned, "worker")
        for options in ((), ("--dry-run",), ("--yes",)):
            told = warning(*options)
            assert "3 jobs (2 b, 1 resize) went on without their parents once" in told
            named = [(running, "claimed"), (failed, "trashed"), (scanned, "complete")]
            assert all(f"{job.uuid} ({job.name}, {state})" in told for job, state in named)
        assert [job.state.name for job in (running, failed, scanned)] == ["CLAIMED", "UNCLAIMED", "COMPLETE"]
        board.trash(fetch)
        run(["restore", fetch.uuid, "--with-children", "--yes", "--json"])
        data = as_json(capsys.readouterr().out)
        assert sorted(data.pop("went_on")) == sorted(job.uuid for job in (running, failed, scanned))
        assert data == {"restored": 1, "left_out": 3, "refused": []}

    @pytest.mark.usefixtures("jobboard")
    def test_restore_names_what_was_cancelled_or_is_complete_since(
        self, board: JobBoard, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before, fetch = board.post("before"), board.post("fetch")
        cancelled = board.post("enrich", after=[fetch], if_failed="cancel")
        watch = board.post("watch", after=[fetch], if_failed="run")
        mail = board.post("mail", after=[watch])
        other = board.post("other", after=[before])
        end(board, before)
        end(board, other)
        board.trash(fetch)
        for job in (watch, mail):
            end(board, job)
        run(["restore", fetch.uuid, "--with-children", "--yes", "--json"])
        said = capsys.readouterr()
        assert "2 jobs that waited for what is restored have ended, and won't come back" in said.err
        assert f"{cancelled.uuid} (cancelled, or forgotten)" in said.err
        assert f"{mail.uuid} (mail, complete)" in said.err
        data = as_json(said.out)
        assert sorted(data["ended"]) == sorted([cancelled.uuid, mail.uuid])
        assert data["went_on"] == [watch.uuid]

    @pytest.mark.usefixtures("jobboard")
    def test_what_nobody_has_claimed_waits_again(self, board: JobBoard, capsys: pytest.CaptureFixture[str]) -> None:
        fetch = board.post("fetch")
        trashed, claimable, delayed = (
            board.post(name, after=[fetch], if_failed="run", delay=delay)
            for name, delay in (("page", None), ("scan", None), ("mail", 1000))
        )
        for job in (fetch, trashed):
            board.trash(job)
        run(["restore", fetch.uuid, "--with-children", "--yes"])
        assert "went on" not in capsys.readouterr().err
        assert [job.state.name for job in (trashed, claimable, delayed)] == ["BLOCKED", "BLOCKED", "DELAYED"]
        end(board, fetch)
        assert [job.state.name for job in (trashed, claimable, delayed)] == ["UNCLAIMED", "UNCLAIMED", "DELAYED"]

    def test_more_than_can_be_looked_at_is_refused(
        self, jobboard: Run, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        jobs = post_graph(board, PIPELINE)
        whole: Callable[..., object] = family_of
        monkeypatch.setattr("jobboard.cli.families.family_of", lambda *given: whole(*given, most=2))
        assert "nothing was changed" in jobboard("cancel", jobs["fetch"].uuid, "--with-children", "--yes", status=1)
        assert len(list(board.iterjobs())) == 4

    @pytest.mark.parametrize("options", [("--all",), ("--job-name", "a"), ()])
    def test_it_needs_one_job(self, jobboard: Run, board: JobBoard, options: tuple[str, ...]) -> None:
        job = board.post("a")
        one = () if options == () else (job.uuid,)
        for command in ("cancel", "trash"):
            assert "one JOB" in jobboard(command, *one, *options, "--with-children", "--yes", status=2)
        assert job.state is JobState.UNCLAIMED
