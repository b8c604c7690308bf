"""``jobboard limits``, ``lanes``, and what other commands have of lanes, as an operator runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.command_line import Run, as_json

from jobboard import JobBoard, JobState, NotFound, Posting, Rate, backend, fetch
from jobboard.cli.app import run
from jobboard.operate.limits import lane_row
from jobboard.operate.views import export_of, plain
from jobboard.testing import clock_of, memory_board

pytest_plugins = ("helpers.command_fixtures",)

FILE = """
[limits.lane."tenant:*"]
running = 2
[limits.lane.stripe]
rate = "30/60s"
[limits.name.import]
running = 100
"""


def test_limits_are_set_listed_replaced_and_removed(jobboard: Run, board: JobBoard) -> None:
    board.post("a")
    assert jobboard("limits") == "there are no limits\n"
    jobboard("limits", "set", "--lane", "tenant:*", "--running", "2", "--by", "ada", "--note", "fair")
    jobboard("limits", "set", "--lane", "stripe", "--rate", "30/1m", "--burst", "5")
    jobboard("limits", "set", "--lane", "order:*", "--running", "1", "--order", "strict")
    jobboard("limits", "set", "--job-name", "import", "--running", "100")
    listed = as_json(jobboard("limits", "--json"))
    assert [(each["name"], each["lane"]) for each in listed] == [
        ("import", None), (None, "order:*"), (None, "stripe"), (None, "tenant:*"),
    ]  # fmt: skip
    assert (listed[1]["order"], listed[2]["rate"]) == ("strict", {"count": 30, "per": 60.0, "burst": 5})
    assert (listed[3]["running"], listed[3]["by"], listed[3]["reason"]) == (2, "ada", "fair")
    assert "30 per 60 s, burst 5" in jobboard("limits")
    jobboard("limits", "set", "--lane", "tenant:*", "--running", "3")
    assert board.limits.get(lane="tenant:*").running == 3  # type: ignore[union-attr]
    jobboard("limits", "remove", "--lane", "tenant:*")
    assert board.limits.get(lane="tenant:*") is None
    assert "has no limit of the lane 'tenant:*'" in jobboard("limits", "remove", "--lane", "tenant:*", status=1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lane", "tenant*", "--running", "2"], "tenant*"),
        (["--lane", "", "--running", "2"], "empty"),
        (["--lane", "a", "--running", "-1"], "running"),
        (["--lane", "a", "--running", "1000000000"], "running"),
        (["--lane", "a", "--rate", "0/60s"], "0/60s"),
        (["--lane", "a", "--rate", "often"], "30/60s"),
        (["--lane", "a", "--running", "1", "--burst", "2"], "--rate"),
        (["--lane", "a", "--job-name", "b", "--running", "1"], "name or lane"),
        (["--running", "1"], "name or lane"),
        (["--lane", "a"], "nothing"),
        (["--job-name", "a", "--rate", "1/60s"], "lane"),
    ],
)
def test_what_is_no_limit_is_wrong_usage(jobboard: Run, board: JobBoard, arguments: list[str], said: str) -> None:
    assert said in jobboard("limits", "set", *arguments, status=2)
    assert list(board.limits) == []


def test_apply_shows_the_difference_and_changes_what_differs(jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(FILE)
    board.limits.set(lane="stripe", rate=Rate(60, 60))
    board.limits.set(lane="mine", running=7)
    board.pause(lane="tenant:*")
    before = list(board.limits)
    lines = jobboard("limits", "apply", str(file), "--dry-run").splitlines()
    assert [line[0] for line in lines[:-1]] == ["+", "~", "+"]
    assert "60 per 60 s -> 30 per 60 s" in lines[1]
    again = f"jobboard limits apply {file} --yes"
    assert lines[-1] == f"3 limits would change; nothing was changed. Change them with: {again}"
    assert list(board.limits) == before
    refused = jobboard("limits", "apply", str(file), status=2)
    assert f"there is no terminal to ask on; nothing was changed; do it with: {again} (see " in refused
    assert list(board.limits) == before
    removing = jobboard("limits", "apply", str(file), "--dry-run", "--remove").splitlines()[-1]
    assert removing.endswith(f": jobboard limits apply {file} --remove --yes")
    data = as_json(jobboard("limits", "apply", str(file), "--yes", "--json"))
    assert [change["kind"] for change in data["changes"]] == ["added", "changed", "added"]
    assert board.limits.get(lane="stripe").rate == Rate(30, 60)  # type: ignore[union-attr]
    paused = board.limits.get(lane="tenant:*")
    assert paused is not None
    assert (paused.running, paused.paused, board.limits.get(lane="mine") is None) == (2, True, False)
    assert as_json(jobboard("limits", "apply", str(file), "--yes", "--json"))["changes"] == []


def test_lanes_say_for_how_long_with_units() -> None:
    with memory_board("lanes") as board:
        board.limits.set(lane="api", running=1)
        board.post_many([Posting("a", lane="api") for _ in range(3)])
        clock_of(board).move(68)
        rows = [lane_row(lane) for lane in board.limits.lanes()]
        assert [row["oldest"] for row in rows] == ["1m8s"]


@pytest.mark.parametrize("name", ["new", "old"])
def test_a_first_deploy_can_be_tried_and_creates_nothing(
    name: str, board: JobBoard, uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, jobs = tmp_path / "limits.toml", tmp_path / "jobs.jsonl"
    file.write_text(FILE)
    jobs.write_text(json.dumps(plain(export_of(board.post("a"), with_details=True, with_errors=False))))
    missing = f"sqlite:///{tmp_path}/new.db" if name == "new" else uri
    for command in (["limits", "apply", str(file)], ["import", str(jobs)]):
        assert run(["--board", missing, "--name", "reports", *command, "--dry-run", "--json"]) == 0
        out, err = capsys.readouterr()
        told = as_json(out)
        assert len(told["changes"]) == 3 if command[0] == "limits" else told["importable"] == 1
        assert err.endswith("it would be created\n")
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(NotFound):
        fetch("reports", missing, create=False).connect()


def test_apply_removes_only_if_told_and_no_pause(jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
    file = tmp_path / "limits.toml"
    file.write_text(FILE)
    jobboard("limits", "apply", str(file), "--yes")
    board.limits.set(lane="mine", running=7)
    board.pause(lane="yours")
    file.write_text('[limits.lane."tenant:*"]\nrunning = 2\n')
    assert as_json(jobboard("limits", "apply", str(file), "--yes", "--json"))["changes"] == []
    removed = as_json(jobboard("limits", "apply", str(file), "--yes", "--json", "--remove"))["changes"]
    assert [change["name"] or change["lane"] for change in removed] == ["import", "mine", "stripe"]
    assert [limit.lane for limit in board.limits] == ["tenant:*", "yours"]


def test_apply_reads_jobboard_toml(
    jobboard: Run, board: JobBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "jobboard.toml" in jobboard("limits", "apply", status=2)
    (tmp_path / "jobboard.toml").write_text("")
    assert "[limits]" in jobboard("limits", "apply", status=2)
    (tmp_path / "jobboard.toml").write_text(FILE)
    jobboard("limits", "apply", "--yes")
    assert len(list(board.limits)) == 3
    assert "running" in _refused(jobboard, tmp_path, "running = -1")
    assert "unknown key" in _refused(jobboard, tmp_path, "runing = 1")


def _refused(jobboard: Run, folder: Path, term: str) -> str:
    (folder / "jobboard.toml").write_text(f"[limits.lane.a]\n{term}\n")
    return jobboard("limits", "apply", "--yes", status=2)


def test_an_export_is_what_apply_reads(jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
    board.limits.set(lane='o"dd:*', running=1, order="strict", rate=Rate(3, 0.5, 4))
    board.limits.set(name="résumé", running=0)
    board.pause(lane="paused")
    written, file = jobboard("limits", "export"), tmp_path / "limits.toml"
    file.write_text(written, encoding="utf-8")
    board.limits.remove(name="résumé")
    jobboard("limits", "apply", str(file), "--yes")
    assert jobboard("limits", "export") == written
    assert as_json(jobboard("limits", "apply", str(file), "--yes", "--json", "--remove"))["changes"] == []


def test_jobs_are_posted_listed_and_exported_with_their_lane(jobboard: Run, board: JobBoard, tmp_path: Path) -> None:
    board.limits.set(lane="tenant:*", running=1)
    uuids = [jobboard("post", "a", "--lane", lane).strip() for lane in ("tenant:1", "tenant:2", "tenant:1")]
    assert [board.get(uuid).state for uuid in uuids] == [JobState.UNCLAIMED, JobState.UNCLAIMED, JobState.BLOCKED]
    assert {job["uuid"] for job in as_json(jobboard("ls", "--lane", "tenant:1", "--json"))} == {uuids[0], uuids[2]}
    assert jobboard("ls", "--columns", "lane", "--lane", "tenant:2") == "lane\ntenant:2\n"
    assert as_json(jobboard("show", uuids[0], "--json"))["lane"] == "tenant:1"
    (tmp_path / "jobs.jsonl").write_text(jobboard("export", "--details"))
    other = f"sqlite:///{tmp_path}/other.db"
    with backend("test", other):
        pass
    jobboard("--board", other, "import", str(tmp_path / "jobs.jsonl"))
    with backend("test", other) as copied:
        assert [copied.get(uuid).lane for uuid in uuids] == ["tenant:1", "tenant:2", "tenant:1"]


def test_lanes_are_listed_the_longest_first_and_shown_alone(jobboard: Run, board: JobBoard) -> None:
    board.limits.set(lane="tenant:*", running=1)
    for lane, number in (("tenant:1", 2), ("tenant:2", 4), ("free", 1)):
        for _ in range(number):
            board.post("a", lane=lane)
    listed = as_json(jobboard("lanes", "--json"))
    assert [(lane["lane"], lane["claimable"], lane["blocked"], lane["of"]) for lane in listed] == [
        ("tenant:2", 1, 3, 1), ("tenant:1", 1, 1, 1), ("free", 1, 0, None),
    ]  # fmt: skip
    assert len(as_json(jobboard("lanes", "--limit", "1", "--json"))) == 1
    assert as_json(jobboard("lanes", "tenant:2", "--json"))["blocked"] == 3
    assert as_json(jobboard("lanes", "nobody", "--json"))["claimable"] == 0


def test_lanes_say_how_many_slots_retries_keep(jobboard: Run, board: JobBoard) -> None:
    """Without that, nothing of a strict lane seems to run, and nothing can start."""
    board.limits.set(lane="order:*", running=3, order="strict")
    board.limits.set(lane="free:*", running=3)
    for lane in ("order:1", "free:1"):
        jobs = board.post_many([Posting("a", lane=lane)] * 7)
        for job in jobs[:2]:
            board.claim(job, "alice")
            board.abandon(job, "alice", delay=60, reason="bad")
        board.claim(jobs[2], "alice")
    listed = as_json(jobboard("lanes", "--json"))
    told = [
        tuple(lane[what] for what in ("taken", "of", "running", "claimable", "kept", "retrying")) for lane in listed
    ]
    assert told == [(3, 3, 1, 0, 2, 2), (3, 3, 1, 2, 0, 2)]
    lines = [line.split("\t")[1:7] for line in jobboard("lanes").splitlines()]
    assert lines == [
        ["taken", "of", "running", "claimable", "kept", "retrying"], ["3", "3", "1", "0", "2", "2"],
        ["3", "3", "1", "2", "0", "2"],
    ]  # fmt: skip
    assert [(lane.lane, lane.taken, lane.kept) for lane in board.limits.lanes()] == [
        ("order:1", 3, 2),
        ("free:1", 3, 0),
    ]
    assert "taken      3\n" in jobboard("lanes", "order:1")


def test_a_lane_is_paused_and_resumed(jobboard: Run, board: JobBoard) -> None:
    job = board.post("a", lane="tenant:1")
    data = as_json(jobboard("pause", "--lane", "tenant:1", "--by", "ada", "--note", "they asked", "--json"))
    (paused,) = data["lanes"]
    assert (paused["lane"], paused["by"], paused["reason"]) == ("tenant:1", "ada", "they asked")
    assert (job.state, data["names"], data["board"]) == (JobState.BLOCKED, [], False)
    assert "lane tenant:1 (by ada since " in jobboard("resume", "another")
    assert jobboard("resume", "--lane", "tenant:1") == "the lane tenant:1 is resumed; nothing is paused\n"
    assert job.state is JobState.UNCLAIMED
    jobboard("pause", "a", "--lane", "tenant:1", status=2)


def test_a_lane_is_paused_for_a_time(jobboard: Run, board: JobBoard) -> None:
    board.limits.set(lane="stripe", running=2)
    told = jobboard("pause", "--lane", "stripe", "--until", "2090-01-31T09:00+00:00", "--by", "ada")
    assert told.startswith("paused: lane stripe until 2090-01-31 09:00:00 UTC (by ada since ")
    (paused,) = as_json(jobboard("pause", "--lane", "stripe", "--for", "30s", "--json"))["lanes"]
    assert paused["until"] == "2090-01-31T09:00:00+00:00"
    assert "until 2090-01-31 09:00:00 UTC" in jobboard("limits")
    board.post("a", lane="stripe")
    assert "until 2090-01-31 09:00:00 UTC" in jobboard("lanes", "stripe")
    assert as_json(jobboard("lanes", "stripe", "--json"))["paused_until"] == paused["until"]
    jobboard("resume", "--lane", "stripe")
    jobboard("pause", "--lane", "stripe", "--for", "0s")
    assert "lane stripe" not in jobboard("stats")
    jobboard("pause", "--for", "30s", status=2)
    jobboard("pause", "--lane", "stripe", "--for", "30s", "--until", "2090-01-31T09:00+00:00", status=2)


def test_a_schedule_has_a_lane(jobboard: Run, board: JobBoard) -> None:
    jobboard("schedule", "add", "nightly", "a", "--every", "1h", "--lane", "tenant:1")
    assert board.get(jobboard("schedule", "fire", "nightly").strip()).lane == "tenant:1"
    assert as_json(jobboard("schedule", "export"))[0]["lane"] == "tenant:1"
    jobboard("schedule", "modify", "nightly", "--lane", "")
    assert board.get(jobboard("schedule", "fire", "nightly").strip()).lane is None
