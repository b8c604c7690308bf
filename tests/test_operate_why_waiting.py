"""Why a job waits for its parents or for a signal, and what names the one that failed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from helpers.graphs import count_requests, end, post_graph

from jobboard import Entity, Job, JobBoard, JobState, Posting, backend
from jobboard.backends.rows import Abandonment, Fence
from jobboard.board import client_of
from jobboard.operate.flow import flow_of, flow_view, timeline_of
from jobboard.operate.status import status
from jobboard.operate.views import view_of
from jobboard.operate.why import why
from jobboard.testing import clock_of, eventually, memory_board


@pytest.fixture
def board(request: pytest.FixtureRequest) -> Iterator[JobBoard]:
    with backend(request.node.name, "memory") as board:
        names = ["a", "b", "child", "report", "load 16", "load 17", "step 11", "step 29"]
        board.register_entity(Entity("conductor", "worker", {"names": names, "concurrency": 2}))
        yield board


def reasons(job: Job) -> dict[str, str]:
    board = job.board
    assert isinstance(board, JobBoard)
    return {reason.kind: reason.text for reason in why(board, board.get(job.uuid))}


def wait_for_signal(board: JobBoard, job: Job, name: str, timeout: float = 0.0) -> None:
    """End a claim until a signal is sent, as a durable handler does."""
    token = board.claim(job, "worker")
    client = client_of(board)
    wish = Abandonment(Fence(job.uuid, "worker", token), delay=timeout, counted=False, signal=name)
    client.call(client.backend.jobs.abandon, [wish])


def test_a_child_names_the_parents_that_it_waits_for(board: JobBoard) -> None:
    jobs = post_graph(board, {"a": [], "b": [], "c": ["a"], "child": ["a", "b", "c"]})
    board.claim(jobs["a"], "w1")
    found = reasons(jobs["child"])
    assert list(found) == ["parents"]
    assert found["parents"].startswith("It waits for 3 of its parents (done: 0 of 3): ")
    assert f"job {jobs['a'].uuid} (a) is claimed by w1" in found["parents"]
    assert f"job {jobs['b'].uuid} (b) is unclaimed" in found["parents"]
    assert f"job {jobs['c'].uuid} (c) waits for its parents" in found["parents"]
    board.consume(jobs["a"], "w1")
    assert "It waits for 2 of its parents (done: 1 of 3)" in reasons(jobs["child"])["parents"]
    end(board, jobs["b"])
    end(board, jobs["c"])
    assert list(reasons(jobs["child"])) == ["next"]


def test_a_parent_says_what_keeps_it_from_its_conductor(board: JobBoard) -> None:
    jobs = post_graph(board, {"a": [], "b": [], "fetch": [], "child": ["a", "b", "fetch"]})
    board.pause("b")
    found = reasons(jobs["child"])["parents"]
    assert f"job {jobs['a'].uuid} (a) is unclaimed," in found
    assert f"job {jobs['b'].uuid} (b) is unclaimed and its name is paused" in found
    assert f"job {jobs['fetch'].uuid} (fetch) is unclaimed and no conductor runs its name" in found


def test_of_many_parents_some_are_named_and_the_rest_is_counted(board: JobBoard) -> None:
    jobs = post_graph(board, {**{f"p{number}": [] for number in range(250)}, "child": [f"p{n}" for n in range(250)]})
    parents = list(jobs.values())[:-1]
    for job in parents[:10]:
        end(board, job)
    for job in parents[240:248]:
        board.trash(job, reason="bad")
    found = [reason for reason in why(board, board.get(jobs["child"].uuid)) if reason.kind.startswith("parent")]
    assert [reason.kind for reason in found] == ["parent_failed"] * 4 + ["parents"]
    assert "5 more of its parents are in the trash" in found[3].text
    assert found[4].text.startswith("It waits for 232 of its parents (done: 10 of 250, 8 failed): ")
    assert found[4].text.endswith(", and 229 more.")
    flow = flow_of(board, board.get(jobs["child"].uuid))
    assert str(flow.parents) == "10 of 250, 8 failed"


def test_a_failed_parent_is_named_with_its_reason_and_the_command_that_mends_it(board: JobBoard) -> None:
    jobs = post_graph(board, {"a": [], "child": ["a"]})
    board.trash(jobs["a"], reason="disk\nfull")
    found = reasons(jobs["child"])
    assert list(found) == ["parent_failed"]
    assert f"Its parent {jobs['a'].uuid} (a) is in the trash: disk" in found["parent_failed"]
    assert found["parent_failed"].endswith(f"jobboard restore {jobs['a'].uuid}")
    board.restore(jobs["a"])
    assert list(reasons(jobs["child"])) == ["parents"]


def test_no_parent_is_to_be_restored_whose_key_another_job_has(board: JobBoard) -> None:
    parents = [board.post("fetch", key=key) for key in ("monday", "tuesday", None)]
    child = board.post("report", after=parents)
    for number, parent in enumerate(parents):
        board.trash(parent, reason=f"{'xyz'[number]}: bad")
    holder = board.post("fetch", key="monday")
    said = {parent.uuid: found.text for parent, found in zip(parents, why(board, board.get(child.uuid)), strict=True)}
    assert [f"cancel {holder.uuid}" in text for text in said.values()] == [True, False, False]
    assert all(f"jobboard restore {uuid}" in text for uuid, text in said.items())
    told = {found["about"]: found["text"] for found in status(board)["findings"] if found["kind"] == "parent_failed"}
    assert {uuid: f"cancel {holder.uuid}" in text for uuid, text in told.items()} == {
        parent.uuid: parent is parents[0] for parent in parents
    }


PIPELINE = {
    f"{step} {table}": [f"{before} {table}"] if before else []
    for step, before in (("extract", ""), ("transform", "extract"), ("load", "transform"))
    for table in range(20)
} | {"report": [f"load {table}" for table in range(20)]}


def test_a_job_in_the_trash_is_named_to_all_that_wait_for_it_by_others(board: JobBoard) -> None:
    jobs = post_graph(board, PIPELINE)
    board.trash(jobs["extract 17"], reason="no source")
    for waiting in ("report", "load 17"):
        found = reasons(jobs[waiting])
        assert list(found) == ["parent_failed", "parents"]
        assert found["parent_failed"] == (
            f"Job {jobs['extract 17'].uuid} (extract 17), for which its parents wait, is in the trash: no source. Once "
            f"the cause is mended, bring it back with: jobboard restore {jobs['extract 17'].uuid}"
        )
    assert list(reasons(jobs["load 16"])) == ["parents"]
    board.restore(jobs["extract 17"])
    assert list(reasons(jobs["report"])) == ["parents"]


def test_a_parent_that_runs_although_its_parent_failed_is_not_held_up_by_that(board: JobBoard) -> None:
    first = [board.post("a"), board.post("b")]
    either = board.post("child", after=first, if_failed="run")
    last = board.post("child", after=[either])
    board.trash(first[0])
    assert list(reasons(last)) == ["parents"]


def test_the_search_for_a_failed_job_is_bounded(board: JobBoard) -> None:
    names = [f"step {number}" for number in range(30)]
    jobs = post_graph(board, {name: names[max(0, number - 1) : number] for number, name in enumerate(names)})
    board.trash(jobs["step 0"], reason="bad")
    assert list(reasons(jobs["step 11"])) == ["parent_failed", "parents"]
    requests = count_requests(board)
    assert list(reasons(jobs["step 29"])) == ["parents"]
    assert len(requests) <= 3 * 10 + 12


def test_a_child_in_the_trash_says_which_parent_is_gone(board: JobBoard) -> None:
    jobs = post_graph(board, {"a": [], "child": ["a"]})
    board.cancel(jobs["a"])
    assert f"its parent {jobs['a'].uuid} was cancelled or purged" in reasons(jobs["child"])["trashed"]


def test_a_delayed_child_says_both(board: JobBoard) -> None:
    parent = board.post("a")
    child = board.post("child", after=[parent], delay=1000)
    assert list(reasons(child)) == ["delayed", "parents"]


def test_a_graph_that_is_not_complete_is_told(board: JobBoard) -> None:
    client = client_of(board)
    job = board.post("child", after=[board.post("a")])
    (new,) = [client.call(client.backend.jobs.read, [job.uuid])[0]]
    assert new is not None
    from jobboard.backends.rows import NewJob, Ties
    from jobboard.payload import EMPTY_PAYLOAD

    part = NewJob(
        job.uuid[:-1] + ("0" if job.uuid[-1] != "0" else "1"), "child", 2, EMPTY_PAYLOAD, ties=Ties(), graph="g"
    )
    client.call(client.backend.jobs.post, [part])
    found = reasons(board.get(part.uuid))
    assert list(found) == ["graph"]
    assert "not complete yet" in found["graph"]


def test_a_wait_for_a_signal_says_since_when_until_when_and_what_sends_it(board: JobBoard) -> None:
    first, second = board.post("a"), board.post("a")
    wait_for_signal(board, first, "approved by ann")
    wait_for_signal(board, second, "approved", timeout=86_400)
    found = reasons(first)
    assert list(found) == ["signal"]
    assert found["signal"].startswith("It waits for the signal approved by ann since ")
    assert found["signal"].endswith(f"jobboard signal {first.uuid} 'approved by ann'")
    assert "(until 20" in reasons(second)["signal"]
    assert "until" not in found["signal"]
    assert view_of(board.get(first.uuid))["waits_for"] == "signal approved by ann"
    board.signal(first, "approved by ann")
    assert list(reasons(first))[-1] == "next"


def test_a_lane_is_named_only_once_the_parents_have_ended(board: JobBoard) -> None:
    board.limits.set(lane="tenant:1", running=1)
    parent = board.post("a")
    child = board.post("child", after=[parent], lane="tenant:1")
    board.claim(board.post("b", lane="tenant:1"), "w1")
    assert list(reasons(child)) == ["parents"]
    end(board, parent)
    assert list(reasons(child)) == ["lane_full"]


def test_a_job_says_by_when_it_has_to_begin_and_that_it_missed_that(board: JobBoard) -> None:
    late = board.post("a", start_by=datetime.now(UTC) + timedelta(hours=1))
    assert list(reasons(late)) == ["next", "start_by"]
    board.claim(late, "w1")
    board.abandon(late, "w1")
    assert "start_by" not in reasons(late)
    missed = board.post("a", start_by=datetime.now(UTC) + timedelta(milliseconds=20))
    eventually(lambda: board.get(missed.uuid).record.state is JobState.TRASHED)
    assert "it had not begun by the moment that start_by gives" in reasons(missed)["trashed"]
    board.restore(missed)
    assert list(reasons(missed)) == ["behind", "failed_before"]
    assert board.get(missed.uuid).record.state is JobState.UNCLAIMED


def test_steps_and_signals_are_one_timeline(board: JobBoard) -> None:
    from jobboard.backends.edge_rows import StepRow

    job = board.post("a")
    token = board.claim(job, "w1")
    client, fence = client_of(board), Fence(job.uuid, "w1", token)
    client.call(client.backend.steps.save, fence, StepRow(0, "charge", b"\x01"))
    board.signal(job, "approved", {"by": "ann"})
    client.call(client.backend.steps.save, fence, StepRow(1, "ship", b"\x02"))
    flow = flow_of(board, board.get(job.uuid))
    lines = timeline_of(flow)
    assert [(line["what"], line["name"]) for line in lines] == [
        ("step", "1. charge"),
        ("signal sent", "approved"),
        ("step", "2. ship"),
    ]
    assert lines[0]["after"] is None
    assert all(line["after"] >= 0 for line in lines[1:])
    view = flow_view(flow)
    assert [step["name"] for step in view["steps"]] == ["charge", "ship"]
    assert [signal["name"] for signal in view["signals"]] == ["approved"]
    assert view["parents"] is None


def test_a_plain_job_has_none_of_it(board: JobBoard) -> None:
    (job,) = board.post_many([Posting("a")])
    flow = flow_of(board, job)
    assert flow_view(flow) == {"parents": None, "steps": [], "signals": []}
    assert not flow.has_relatives
    assert timeline_of(flow) == []


def missed_run(board: JobBoard, parents: dict[str, list[str]], failed: str) -> dict[str, Job]:
    """Post a graph of jobs that have to begin within a minute, trash one, and let the minute go by."""
    jobs = post_graph(board, parents, start_by=datetime.now(UTC) + timedelta(minutes=1))
    board.trash(jobs[failed], by="ada", reason="disk full")
    clock_of(board).move(61)
    assert board.claim_next("w") == []
    return jobs


def test_a_job_that_had_not_begun_in_time_names_what_it_waited_for() -> None:
    with memory_board("missed") as board:
        jobs = missed_run(board, {"extract": [], "gather": ["extract"], "load": ["gather"]}, "extract")
        for name in ("gather", "load"):
            found = reasons(jobs[name])
            assert list(found) == ["trashed", "parent_failed"]
            assert found["parent_failed"].startswith(
                f"It still waits for job {jobs['extract'].uuid} (extract), which is in the trash: disk full."
            )
            assert found["parent_failed"].endswith(f"jobboard restore {jobs['extract'].uuid} --with-children")
            assert "jobboard restore" not in found["trashed"]


def test_the_one_of_many_parents_that_failed_is_named_after_start_by() -> None:
    with memory_board("wide") as board:
        parts = board.post_many([Posting("part") for _ in range(150)])
        gather = board.post("gather", after=parts, start_by=datetime.now(UTC) + timedelta(minutes=1))
        failed = max(parts, key=lambda part: part.uuid)
        for part in parts:
            if part is failed:
                board.trash(part, reason="disk full")
            else:
                end(board, part)
        clock_of(board).move(61)
        assert board.claim_next("w") == []
        assert failed.uuid in reasons(gather)["parent_failed"]


def test_a_job_that_had_not_begun_in_time_names_the_live_job_that_it_waits_for() -> None:
    with memory_board("slow") as board:
        slow = board.post("slow")
        late = board.post("late", after=[slow], start_by=datetime.now(UTC) + timedelta(minutes=1))
        clock_of(board).move(61)
        board.claim(slow, "w", 600)
        assert board.get(late.uuid).state is JobState.TRASHED
        found = reasons(late)
        assert list(found) == ["trashed", "parents"]
        assert f"job {slow.uuid} (slow), which is claimed" in found["parents"]
        assert found["parents"].endswith(f"jobboard restore {late.uuid}")
        board.consume(slow, "w")
        assert list(reasons(late)) == ["trashed"]


def test_the_status_says_once_what_had_not_begun_since_one_job_failed() -> None:
    with memory_board("once") as board:
        run = {"extract": [], "gather": ["extract"], "load": ["gather"], "publish": ["load", "gather"]}
        jobs = missed_run(board, run, "extract")
        (finding,) = status(board)["findings"]
        assert (finding["kind"], finding["about"]) == ("parent_failed", jobs["extract"].uuid)
        assert finding["text"].startswith("1 job, and what waits for it, waits for job ")
        assert finding["text"].endswith(f"jobboard restore {jobs['extract'].uuid} --with-children")


def test_the_status_says_once_what_had_not_begun_since_its_parent_is_slow() -> None:
    with memory_board("slow") as board:
        first = post_graph(board, {"a": [], "b": ["a"], "c": ["b"]}, start_by=datetime.now(UTC) + timedelta(minutes=1))
        board.claim(first["a"], "w", 600)
        clock_of(board).move(61)
        told = {one["kind"]: one["text"] for one in status(board)["findings"]}
        assert told["not_begun"].startswith(
            "2 jobs are in the trash that had not begun by the moment that start_by gives"
        )
        assert "trash" not in told


def test_the_status_names_more_than_five_jobs_for_which_others_wait() -> None:
    with memory_board("many") as board:
        parents = [board.post("fetch", {"n": number}) for number in range(8)]
        for parent in parents:
            board.post("sum", after=[parent])
            board.trash(parent, reason="HTTPError: 500")
        (text,) = [one["text"] for one in status(board)["findings"] if one["kind"] == "parents_failed"]
        assert text.startswith("8 jobs wait for 8 jobs named 'fetch'")
        for number in range(120):
            board.trash(board.post("fetch", {"n": number}), reason="HTTPError: 500")
        texts = [one["text"] for one in status(board)["findings"] if one["kind"] == "parents_failed"]
        assert texts[0].startswith("8 jobs wait for 8 or more jobs named 'fetch'")
