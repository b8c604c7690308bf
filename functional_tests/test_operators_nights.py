"""What an operator does at 3 a.m. in the terminal: finds and mends what the operators' guide shows, by its commands."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from harnesses.nights import Start, conductor
from harnesses.operator import Operator
from harnesses.stopping import stop_between_writes
from servers.redis_servers import RedisServer

from jobboard import Entity, Every, Job, JobBoard, JobState, Schedule, fetch
from jobboard.operate.status import status
from jobboard.operate.verdict import Limits
from jobboard.operate.why import why
from jobboard.testing import eventually

# Several Python processes start one after the other.
pytestmark = [pytest.mark.timeout(400), pytest.mark.turn_of("nights of operators")]


@pytest.fixture
def board(uri: str) -> Iterator[JobBoard]:
    with fetch("night", uri) as board:
        yield board


def is_complete(job: Job) -> bool:
    return job.state is JobState.COMPLETE


def eventually_well(operator: Operator, board: JobBoard) -> None:
    # A command costs the start of a process, so it is asked when it will probably say so.
    eventually(lambda: status(board)["verdict"] == "WELL", within=60, every=0.2)
    eventually(lambda: operator.look_again("jobboard status")[0] == 0, within=60, every=1.0)


def test_a_handler_hangs(start: Start, board: JobBoard, uri: str) -> None:
    operator = Operator("A handler hangs", uri)
    hung = board.post("resize", details={"hang": True})
    process = conductor(start, board, uri, "broken", "--drain", "1")
    eventually(lambda: hung.state is JobState.CLAIMED)
    behind = board.post("resize")

    looks = "jobboard status --max-run 5m"
    operator.left.remove(looks)
    short = looks.replace("5m", "0.5s")  # five minutes are long for a test
    eventually(lambda: status(board, Limits(run=0.5))["findings"], within=60, every=0.2)
    verdict, told = eventually(lambda: look if (look := operator.look_again(short))[0] else None, within=60, every=1.0)
    assert (verdict, "runs 'resize' for" in told, f"(job {hung.uuid})" in told) == (1, True, True)
    this = {"3f2a": hung.uuid[-8:], "4711": str(process.pid)}
    why = operator.run("jobboard why 3f2a", this)
    assert "conductor@" in why
    assert f":{process.pid}:" in why
    operator.run("kill -USR1 4711", this)
    operator.run("jobboard trash 3f2a --note 'hangs in scale'", this)
    # The signal's report comes from a thread of its own.
    assert "night_work.py" in _until(process, "in scale")
    operator.run("kill 4711", this)
    process.communicate(timeout=60)
    conductor(start, board, uri, "mended")
    assert behind.wait(60)
    operator.run("jobboard restore 3f2a", this)
    assert hung.wait(60)
    eventually_well(operator, board)
    assert operator.left == []


def _until(process: subprocess.Popen[str], text: str) -> str:
    """Return what a process says up to the line with this text."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} is not in what it said: {lines}")


def test_all_jobs_of_a_kind_fail(start: Start, board: JobBoard, uri: str) -> None:
    operator = Operator("All jobs of a kind fail", uri)
    invoices = [board.post("invoice") for _ in range(3)]
    waiting, later = board.post("invoice"), board.post("invoice", delay=3600)
    board.claim(waiting, "w")
    board.abandon(waiting, "w", delay=3600, reason="LookupError: no customer 8")
    process = conductor(start, board, uri, "broken")
    eventually(lambda: all(job.state is JobState.TRASHED for job in invoices), within=60)

    told = operator.run("jobboard status", status=1)
    assert "Jobs named 'invoice' fail: 4 of those that were read since " in told
    assert "most often (4 of 4): LookupError: no customer " in told
    operator.run("jobboard pause invoice")
    other = board.post("resize")
    assert other.wait(60), "other names go on"
    assert "invoice\tLookupError: no customer #\t3\t" in operator.run("jobboard trashed --groups")
    listed = operator.run("jobboard trashed --job-name invoice --limit 10")
    assert all(job.uuid in listed for job in invoices)
    this = {"3f2a": listed.splitlines()[1].split()[0]}
    assert 'raise LookupError("no customer 17")' in operator.run("jobboard show 3f2a", this)
    process.terminate()
    process.communicate(timeout=60)
    conductor(start, board, uri, "mended")
    operator.run("jobboard resume invoice")
    operator.run("jobboard restore 3f2a", this)
    first = board.get(this["3f2a"])
    assert first.wait(60)
    assert "COMPLETE" in operator.run("jobboard show 3f2a", this)
    kind = "--job-name invoice --reason-kind 'LookupError: no customer #'"
    operator.run(f"jobboard restore {kind} --newer-than 12h --yes")
    operator.run(f"jobboard run-now {kind} --yes")
    assert all(job.wait(60) for job in [*invoices, waiting])
    assert all(map(is_complete, [*invoices, waiting]))
    assert later.state is JobState.DELAYED, "it is for later"
    eventually_well(operator, board)
    assert operator.left == []


def test_a_conductor_went_away(start: Start, board: JobBoard, uri: str) -> None:
    operator = Operator("A conductor went away", uri)
    hung = [board.post("resize", details={"hang": True}) for _ in range(3)]
    process = conductor(start, board, uri, "broken", "--expiry", "600", "--concurrency", "3")
    eventually(lambda: all(job.state is JobState.CLAIMED for job in hung), within=60)
    process.kill()
    process.communicate(timeout=60)
    (who,) = board.entities()
    # It would count as alive for 40 s.
    board.register_entity(Entity(who.kind, who.name, who.metadata, ttl=0.001))

    eventually(lambda: not board.entities()[0].alive)
    told = operator.run("jobboard status", status=1)
    assert f"{who.name} was last heard of " in told
    assert "It holds 3 jobs, by claims that end within " in told
    assert f"give them back now with: jobboard release --owner {who.name}" in told
    assert f":{process.pid}:" in operator.run("jobboard entities")
    assert f"{who.name}\t3\tresize" in operator.run("jobboard owners")
    released = next(command for command in operator.left if "release" in command)
    assert "3 jobs named 'resize' released" in operator.run(released, {"worker@host-7": who.name})
    verdict, told = operator.look_again("jobboard status --max-wait 0s")
    assert (verdict, "Jobs that it ran wait ('resize'), and no conductor has begun in its place" in told) == (1, True)
    operator.left.remove("jobboard conductor mywork:handlers")
    conductor(start, board, uri, "mended")
    assert all(job.wait(60) for job in hung)
    eventually_well(operator, board)
    assert operator.left == []


def test_one_kind_has_all_slots(start: Start, board: JobBoard, uri: str) -> None:
    operator = Operator("One kind has all slots", uri)
    hung = [board.post("resize", details={"hang": True}) for _ in range(3)]
    process = conductor(start, board, uri, "broken", "--concurrency", "2", "--drain", "0")
    eventually(lambda: sum(job.state is JobState.CLAIMED for job in hung) == 2, within=60)
    waiting = board.post("invoice")

    looks = "jobboard status --max-wait 5m"
    operator.left.remove(looks)
    short = looks.replace("5m", "0.5s")  # five minutes are long for a test
    kinds = {"one_name"}
    eventually(lambda: kinds <= {each["kind"] for each in status(board, Limits(wait=0.5))["findings"]}, within=60)
    told = operator.look_again(short)[1]
    assert "Jobs named 'resize' have all 2 slots of 1 conductor, while 1 job named 'invoice' waits" in told
    this = {"3f2a": waiting.uuid[-8:]}
    assert "runs 2 'resize' in 2 of 2 slots" in operator.run("jobboard why 3f2a", this)
    assert operator.run("jobboard ls --state claimed --job-name resize").count("CLAIMED") == 2
    operator.run("jobboard limits set --job-name resize --running 1")
    process.terminate()
    process.communicate(timeout=60)
    conductor(start, board, uri, "mended", "--concurrency", "2")
    assert all(job.wait(60) for job in [waiting, *hung])
    operator.run("jobboard limits remove --job-name resize")
    eventually_well(operator, board)
    assert operator.left == []


def test_a_conductor_that_is_dead_to_the_world(start: Start, board: JobBoard, uri: str) -> None:
    process = conductor(start, board, uri, "mended", "--expiry", "15")
    stop_between_writes(process.pid, uri)
    try:
        job = board.post("resize")
        said = eventually(lambda: {each.kind: each.text for each in why(board, job)}, within=60)
        eventually(lambda: [each.kind for each in why(board, job)] == ["conductor_silent"], within=60)
        assert board.entities()[0].alive, "it does not count as gone yet"
        assert f":{process.pid}:" in said["next"]
    finally:
        process.send_signal(signal.SIGCONT)
    assert job.wait(60)


def test_nothing_fires(start: Start, board: JobBoard, uri: str) -> None:
    operator = Operator("Nothing fires", uri)
    board.schedules.add(Schedule("nightly", Every(seconds=1), "report"))
    conductor(start, board, uri, "mended")
    eventually(lambda: _next(board) < datetime.now(UTC), within=30)

    assert "No scheduler is alive; active schedules: 1." in operator.run("jobboard status", status=None)
    assert "nightly\tactive" in operator.run("jobboard schedule ls")
    start(*operator.words("jobboard scheduler")[1:], "--board", uri, "--name", "night")
    eventually(lambda: board.schedules.history("nightly"), within=60)
    assert "report" in operator.run("jobboard schedule show nightly")
    now = datetime.now(UTC)
    backfill = next(command for command in operator.left if "backfill" in command)
    times = {
        "2026-11-22T00:00:00Z": _iso(now - timedelta(seconds=63)),
        "2026-11-22T06:00:00Z": _iso(now - timedelta(seconds=60)),
    }
    assert "jobs posted" in operator.run(backfill, times)
    eventually_well(operator, board)
    assert operator.left == []


def _next(board: JobBoard) -> datetime:
    at = board.schedules.get("nightly").next_fire_time
    assert at is not None
    return at


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def test_the_store_is_dead(start: Start) -> None:
    with RedisServer({"appendonly": "yes", "appendfsync": "always"}) as server, fetch("night", server.uri) as board:
        operator = Operator("The store is dead", server.uri)
        conductor(start, board, server.uri, "mended")
        later = board.post("resize", delay=5)
        server.kill()
        watch = operator.words("jobboard status --watch --interval 10s")
        told = operator.run_words([*watch, "--for", "0s"], 2)
        assert f"Redis at 127.0.0.1:{server.port} can't be reached" in told
        assert f"127.0.0.1:{server.port} can't be reached" in operator.run_words(["jobboard", "stats"], 3)
        server.start()
        server.freeze()
        assert f"Redis at 127.0.0.1:{server.port} can't be reached" in operator.run_words(["jobboard", "status"], 2)
        server.thaw()
        assert later.wait(60), "conductors go on by themselves"
        assert "all records agree" in operator.run("jobboard check")
        operator.left.remove("jobboard status")
        eventually_well(operator, board)
        assert operator.left == []
