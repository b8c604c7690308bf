"""The demo and the command line on every server, with nothing changed but the board's URI."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from harnesses.demo import COMMAND, ENVIRONMENT
from servers.durable_stores import STORES, running
from servers.redis_servers import RedisCluster, RedisSentinel

from jobboard import Conductor, Entity, Every, Handlers, JobBoard, JobState, NotFound, Posting, Schedule, fetch
from jobboard.cli.app import run as jobboard
from jobboard.operate.finding import ended_with_key
from jobboard.operate.overview import overview
from jobboard.operate.selecting import Selection
from jobboard.operate.status import status
from jobboard.testing import eventually

pytestmark = pytest.mark.in_turn(1)

#: In bytes; their sum takes some 0.2 seconds.
_LARGE = 48 << 20

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module", params=[store for store in STORES if store != "sqlite"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as store:
        yield store.uri


@pytest.fixture
def board(uri: str, request: pytest.FixtureRequest) -> Iterator[JobBoard]:
    with fetch(request.node.originalname, uri) as board:
        yield board


@pytest.fixture
def run(uri: str, board: JobBoard, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command in this process, and return what it prints."""

    def run(*arguments: str, status: int = 0) -> str:
        capsys.readouterr()
        found = jobboard(["--board", uri, "--name", board.name, *arguments])
        out, err = capsys.readouterr()
        assert found == status, err
        return str(out)

    return run


def demo(tree: Path, uri: str, files: int, large: int = 0) -> dict[str, Any]:
    """Run it on many files; the large ones are the last."""
    for number in range(files):
        file = tree / f"tree/{number % 20}/{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(600))
    for number in range(large):
        file = tree / f"tree/last/{number}"
        file.parent.mkdir(exist_ok=True)
        with file.open("wb") as empty:
            empty.truncate(_LARGE)
    command = [*COMMAND, "--board", uri, "tree", "--json"]
    done = subprocess.run(command, cwd=tree, env=ENVIRONMENT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    checked = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=tree, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout.count(b": OK\n")) == (0, files + large)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_a_command_that_creates_the_board_says_so(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        assert jobboard(["--board", uri, "--name", "new", "post", "a"]) == 0
        assert capsys.readouterr().err.endswith("is created now\n") is (number == 0)


def test_the_demo_with_a_killed_conductor(uri: str, tmp_path: Path) -> None:
    # A quick server is done with small files before the demo has looked a second time.
    report = demo(tmp_path, uri, 200, large=12)
    assert (report["jobs"], report["unreadable"], sum(report["owners"].values())) == (212, [], 212)
    assert report["killed"] is not None
    assert report["taken_over"] > 0


@pytest.mark.parametrize("deployment", [RedisCluster, RedisSentinel])
def test_the_demo_on_several_servers(deployment: type[RedisCluster | RedisSentinel], tmp_path: Path) -> None:
    with deployment() as server:
        assert demo(tmp_path, server.uri, 200)["jobs"] == 200


def test_the_doctor_names_the_server(run: Callable[..., str]) -> None:
    found = {each["subject"]: each for each in json.loads(run("doctor", "--trial", "--json"))}
    assert re.search(r": (Redis|PostgreSQL|MariaDB|etcd|ZooKeeper) \d+\.\d+.* answers$", found["store"]["text"])
    assert found["rights"]["well"] is True


def test_a_graph_is_shown_mended_and_taken_off(run: Callable[..., str], board: JobBoard) -> None:
    def told(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json"))

    first = Posting("fetch")
    parts = [Posting("part", after=[first]) for _ in range(230)]
    jobs = board.post_many([first, *parts, Posting("report", after=parts)])
    uuid, report = jobs[0].uuid, jobs[-1].uuid
    for start in (uuid, report, jobs[100].uuid):
        graph = told("show", start, "--graph")
        assert (graph["jobs"], len(graph["edges"]), graph["whole"]) == (232, 460, True)
        assert graph["states"] == {"BLOCKED": 231, "UNCLAIMED": 1}
    assert len(run("show", report, "--graph").splitlines()) == 5

    board.claim_next("w1")
    board.consume(uuid, "w1", {"ok": True})
    failed, *others = board.claim_next("w1", ["part"], limit=3)
    board.trash(failed, "w1", reason="no disk")
    for job in others:
        board.consume(job, "w1")
    eventually(lambda: told("show", report)["parents"] == {"total": 230, "done": 2, "failed": 1, "gone": 0})
    reasons = {reason["kind"]: reason["text"] for reason in told("why", report)["reasons"]}
    assert f"jobboard restore {failed.uuid}" in reasons["parent_failed"]
    assert "2 of 230, 1 failed" in reasons["parents"]
    findings = [finding for finding in status(board)["findings"] if finding["kind"] == "parent_failed"]
    assert [finding["about"] for finding in findings] == [failed.uuid]
    assert told("restore", failed.uuid, "--with-children", "--yes")["restored"] == 1

    assert told("signal", report, "approved", "--value", "7")["new"] is True
    assert told("signal", report, "approved")["new"] is False
    assert [signal["name"] for signal in told("show", report)["signals"]] == ["approved"]
    rows = told("cancel", failed.uuid, "--with-children", "--dry-run")
    assert [row["uuid"] for row in rows] == [report, failed.uuid]
    assert told("cancel", failed.uuid, "--with-children", "--yes")["cancelled"] == 2
    assert {job.name for job in board.iterjobs()} == {"part"}
    assert board.stats().trashed == 0


def test_an_operators_day(run: Callable[..., str], board: JobBoard, uri: str, start: Start, tmp_path: Path) -> None:
    def told(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--json"))

    step = ["post", "step", "--details", json.dumps({"diary": str(tmp_path / "diary")})]
    good = run(*step, "--key", "one").strip()
    run(*step, "--key", "one", status=1)
    later, broken = run(*step, "--delay", "3600").strip(), run("post", "unknown").strip()
    assert {job["uuid"] for job in told("ls")} == {good, later, broken}
    assert told("show", good)["state"] == "UNCLAIMED"
    assert "delayed" in run("why", later).lower()
    stats = told("stats")
    assert (stats["unclaimed"], stats["delayed"]) == (2, 1)

    run("pause", "step")
    conductor = start(
        "--board", uri, "--name", board.name, "conductor", "harnesses.crew_work:handlers", "--label", "crew"
    )
    eventually(lambda: any(entity["kind"] == "conductor" for entity in told("entities")), 30)
    assert board.get(good).state is JobState.UNCLAIMED
    run("resume", "step")
    eventually(lambda: board.get(good).state is JobState.COMPLETE, 30)

    run("trash", broken, "--note", "nobody knows it")
    assert [job["uuid"] for job in told("trashed")] == [broken]
    run("restore", broken)
    assert board.get(broken).state is JobState.UNCLAIMED
    claimed = board.claim(broken, "somebody")
    assert claimed
    assert "somebody" in run("owners")
    run("release", broken, "--note", "he left")
    run("trash", broken)
    run("purge", broken, "--yes")
    run("cancel", later)
    run("check")
    conductor.send_signal(signal.SIGTERM)
    assert conductor.wait(30) == 0
    assert board.job_count == 0


def test_the_status_of_a_board(run: Callable[..., str], board: JobBoard) -> None:
    def verdict(status: int) -> set[tuple[str, str | None]]:
        view = json.loads(run("status", "--json", status=status))
        # The tests' servers need not keep anything.
        kept = [finding for finding in view["findings"] if finding["kind"] != "not_durable"]
        return {(finding["kind"], finding["about"]) for finding in kept}

    board.post_many([Posting("resize"), Posting("resize", priority="high"), Posting("mail", delay=1000)])
    board.trash(board.post("mail"), by="me", reason="KeyError: 'x'")
    board.schedules.add(Schedule("hourly", Every(hours=1), "mail"))
    board.schedules.add(Schedule("never", Every(hours=1), "mail", paused=True))
    off = ("schedule_paused", "never")
    assert verdict(1) == {("no_conductor", "resize"), ("trash", "mail"), ("no_scheduler", None), off}
    board.register_entity(Entity("conductor", "w", {"names": ["resize"], "stuck": 1, "concurrency": 2}, 600))
    board.register_entity(Entity("scheduler", "s", ttl=600))
    board.pause("mail")
    assert verdict(1) == {("stuck", "w"), ("trash", "mail"), ("name_paused", "mail"), ("no_handler", "hourly"), off}
    view = json.loads(run("status", "--json", status=1))
    assert (view["names"]["resize"]["unclaimed"], view["names"]["resize"]["conductors"]) == (2, 1)
    assert 0 <= view["names"]["resize"]["next_waits"] < 60
    assert (view["trash"][0]["kind"], view["schedules"]["active"], view["schedules"]["paused"]) == (
        "KeyError: 'x'",
        1,
        1,
    )


def test_the_status_finds_who_went_away_and_who_has_all_slots(run: Callable[..., str], board: JobBoard) -> None:
    def found() -> set[tuple[str, str]]:
        told = json.loads(run("--json", "status", "--max-wait", "0s", status=1))
        return {(each["kind"], each["about"]) for each in told["findings"]}

    board.post_many([Posting("hog")] * 3)
    assert len(board.claim_next("dead", limit=2, expiry=600)) == 2
    board.post("mail")
    slots = {"names": ["hog", "mail"], "concurrency": 2, "running": 2, "running_names": {"hog": 2}}
    board.register_entity(Entity("conductor", "alive", slots, 600))
    board.register_entity(Entity("conductor", "dead", {"names": ["hog"], "uptime": 5}, ttl=0.001))
    eventually(lambda: found() >= {("conductor_gone", "dead"), ("one_name", "hog")}, within=30)
    run("release", "--owner", "dead", "--yes")
    eventually(lambda: [one.held for one in overview(board).gone] == [0], within=30)
    slots["running_names"] = {"hog": 1, "mail": 1}
    board.register_entity(Entity("conductor", "alive", slots | {"uptime": 0}, 600))
    eventually(lambda: not {kind for kind, _ in found()} & {"conductor_gone", "one_name"}, within=30)


def test_many_jobs_at_once(run: Callable[..., str], board: JobBoard) -> None:
    def done(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--yes", "--json"))

    board.post_many([Posting("resize", key=f"order/{number % 2}/{number}") for number in range(250)])
    board.post_many([Posting("mail"), Posting("mail", delay=1000)])
    held = board.claim_next("worker@a", ["resize"], 3)
    assert {job["owner"] for job in json.loads(run("ls", "--owner", "worker@", "--json"))} == {"worker@a"}
    assert done("release", "--owner", "worker@a", "--limit", "2") == {"released": 2, "refused": []}
    assert done("cancel", "--key-prefix", "order/0/", "--limit", "0")["cancelled"] == 125
    assert done("trash", "--job-name", "resize", "--older-than", "0s", "--note", "disk full")["trashed"] in (125, 126)
    assert done("restore", "--reason", "disk", "--limit", "101") == {"restored": 101, "refused": []}
    board.post("mail", delay=1000, key="now")
    assert done("run-now", "--key", "now") == {"made_claimable": 1, "refused": []}
    assert done("reprioritize", "--key", "now", "--priority", "low") == {"reprioritized": 1, "refused": []}
    assert done("cancel", "--state", "delayed") == {"cancelled": 1, "refused": []}
    for number in range(3):
        for reason in (f"OSError: host 'h{number}' is gone", f"OSError: disk {number} is full"):
            board.trash(board.post("mail"), reason=reason)
    groups = json.loads(run("trashed", "--groups", "--job-name", "mail", "--json"))
    kinds = [(group["reason_kind"], group["jobs"]) for group in groups]
    assert kinds == [("OSError: disk # is full", 3), ("OSError: host # is gone", 3)]
    assert done("restore", "--job-name", "mail", "--reason-kind", kinds[0][0]) == {"restored": 3, "refused": []}
    assert done("cancel", "--job-name", "mail", "--state", "unclaimed")["cancelled"] == 5
    assert len(json.loads(run("trashed", "--job-name", "mail", "--json"))) == 3
    assert 27 <= done("purge", "--all")["purged"] <= 28
    assert held[2].state in (JobState.CLAIMED, JobState.TRASHED, JobState.UNCLAIMED)
    assert board.job_count == 101


def test_looking_at_boards_and_at_jobs_by_their_keys(run: Callable[..., str], board: JobBoard) -> None:
    job, done = board.post("resize", key="k", details={"n": 1}), board.post("resize", key="l")
    assert board.name in run("boards").splitlines()
    board.trash(job, by="me", reason="bad", error="worse")
    board.claim(done, "me")
    board.consume(done, "me", "result")
    for text, found in (("resize:k", job), ("resize:l", done)):
        assert json.loads(run("show", text, "--json"))["uuid"] == found.uuid
    assert json.loads(run("ls", "--key", "k", "--json")) == []
    assert [[each.uuid for each in ended_with_key(board, Selection(key=key))] for key in "klm"] == [
        [job.uuid], [done.uuid], [],
    ]  # fmt: skip
    line = json.loads(run("export", "--state", "trashed", "--details", "--errors"))
    assert (line["uuid"], line["details"], line["last_error"]) == (job.uuid, {"n": 1}, "worse")
    (line,) = [json.loads(line) for line in run("export", "--state", "complete", "--details").splitlines()]
    assert line["result"] == "result"
    later = [board.post("resize", priority=priority) for priority in ("low", "high", "normal")]
    for each in later:
        board.trash(each, by="me", reason="bad")
        # Some stores' moments are whole milliseconds.
        time.sleep(0.01)
    newest = [row["uuid"] for row in json.loads(run("trashed", "--newest", "--newer-than", "1h", "--json"))]
    assert newest == [each.uuid for each in (*reversed(later), job)]
    assert json.loads(run("trashed", "--newest", "--older-than", "1h", "--json")) == []


def test_exported_jobs_are_imported_each_once(
    run: Callable[..., str], board: JobBoard, uri: str, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.jsonl"
    jobs = board.post_many([Posting("resize", key=str(number), details={"raw": b"x"}) for number in range(120)])
    file.write_text(run("export", "--details"))
    name = f"{board.name}-copy"
    for imported, there in (120, 0), (0, 120):
        expected = {"imported": imported, "there": there, "left_out": 0, "refused": []}
        assert json.loads(run("import", str(file), "--json", "--name", name)) == expected
    with fetch(name, uri) as copy:
        assert list(copy.iterjobs()) == jobs
        assert all(job.details == {"raw": b"x"} for job in copy.iterjobs())
        copy.cancel(jobs[0].uuid)
    assert json.loads(run("import", str(file), "--json", "--name", name)) == expected, "it is remembered"


def test_a_conductor_is_told_to_claim_no_more(run: Callable[..., str], board: JobBoard) -> None:
    handlers = Handlers()
    handlers.add("step", lambda job: None)
    conductor = Conductor("worker", board, handlers)
    conductor.start()
    try:
        for option, is_quiet in ((), True), (("--off",), False):
            run("quiet", *option, "worker@")
            # At once, not within 10 seconds.
            assert conductor._run is not None
            conductor._run._heartbeat.register_again()
            conductor._run._renewer.renew_soon()
            eventually(lambda wanted=is_quiet: board.entities()[0].metadata["quiet"] is wanted, 20)
        assert board.post("step").wait(20)
    finally:
        conductor.stop(timeout=10)


def test_a_mistyped_name_is_refused_and_makes_no_board(uri: str, board: JobBoard) -> None:
    board.post("step")
    for _ in range(2):
        with pytest.raises(NotFound, match=f"there is no board 'jbos' in this store; there are: .*{board.name}"):
            fetch("jbos", uri, create=False).connect()
    with fetch(board.name, uri, create=False) as same:
        assert same.job_count == 1


def test_what_happens_is_shown_while_it_happens(board: JobBoard, uri: str, start: Start) -> None:
    posted = [board.post("resize").uuid]
    watch = start("--board", uri, "--name", board.name, "--json", "watch")
    assert watch.stdout is not None
    received: list[str] = []

    def is_received() -> bool:
        """Nobody says when the watcher has begun to listen; it says on the same pipe that nothing is on disk."""
        posted.append(board.post("resize").uuid)
        while select.select([watch.stdout], [], [], 0.2)[0]:
            line = watch.stdout.readline()
            if line.startswith("{"):
                received.append(json.loads(line)["uuid"])
                return True
        return False

    eventually(is_received, 30)
    assert received[0] in posted


def test_a_board_that_is_not_there_is_one_line_and_status_3() -> None:
    def ls(scheme: str) -> tuple[str, int, str, int]:
        command = [sys.executable, "-m", "jobboard", "--board", f"{scheme}://127.0.0.1:1/0", "ls"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return scheme, done.returncode, done.stdout, len(done.stderr.splitlines())

    schemes = ["redis", "etcd", "postgresql", "mysql", "zookeeper"]
    # At the same time, since each tries for ten seconds.
    with ThreadPoolExecutor(len(schemes)) as threads:
        assert list(threads.map(ls, schemes)) == [(scheme, 3, "", 1) for scheme in schemes]
