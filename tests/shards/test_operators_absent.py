"""What operators read while a shard is away: the rest with its name, or an error with its name that says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.console import asking, text_of
from helpers.sharded import Folders

from jobboard import Entity, Every, Job, JobBoard, Schedule
from jobboard.backends.shards import health
from jobboard.backends.shards.placement import new_uuid
from jobboard.cli.app import run
from jobboard.operate.why import why

NAME = "resize"
#: Commands that need all shards.
REFUSED = [
    ["entities"], ["owners"], ["lanes"], ["schedule", "ls"], ["ls"], ["ls", "--lane", "x"], ["trashed"], ["stats"],
    ["check"], ["export"], ["book", "ls"], ["boards"], ["pause", NAME],
]  # fmt: skip
#: How they end while a shard is away, and what the error says at its end.
UNAVAILABLE, ADVICE = 3, "no other shard can answer this, see: jobboard shards"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    monkeypatch.setattr(health, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(health, "MAX_PAUSE", 0.1)
    return Folders(tmp_path)


@pytest.fixture(params=[0, 1, 2])
def away(request: pytest.FixtureRequest) -> int:
    """Return the shard that goes away."""
    number: int = request.param
    return number


@pytest.fixture
def jobs(folders: Folders) -> list[Job]:
    """Return a job of each shard; on one of these is the only conductor, too."""
    with folders.fetch() as board:
        board.register_entity(Entity("conductor", "mill", {"names": [NAME], "running": 0, "concurrency": 2}))
        board.schedules.add(Schedule("nightly", Every(minutes=5), "tick"))
        return [board.post(NAME, uuid=new_uuid(number)) for number in range(3)]


@pytest.fixture
def board(folders: Folders, jobs: list[Job]) -> Iterator[JobBoard]:
    with folders.fetch() as board:
        yield board


def told(board: JobBoard, job: Job) -> dict[str, str]:
    return {reason.kind: reason.text for reason in why(board, board.get(job.uuid))}


def take_away(folders: Folders, number: int) -> None:
    folders.take_away("abc"[number])


def test_why_says_what_the_others_know_and_what_nobody_does(
    folders: Folders, jobs: list[Job], board: JobBoard, away: int
) -> None:
    first, second = (jobs[number] for number in range(3) if number != away)
    board.claim(second, "alice")
    board.pause(NAME, by="ada")
    before = told(board, first)
    assert {"name_paused"} <= before.keys()
    assert not {"shard_away", "no_conductor"} & before.keys()
    board.close()
    take_away(folders, away)
    board.connect()
    waiting, claimed = told(board, first), told(board, second)
    for reasons in (waiting, claimed):
        assert next(iter(reasons)) == "shard_away"
        text = reasons["shard_away"]
        assert text.startswith(f"Shard {away} does not answer: there is no directory ")
        assert "are registered there" in text
        assert text.endswith("See the shards with: jobboard shards")
    assert "which jobs there come before it" in waiting["shard_away"]
    assert "name_paused" in waiting
    # Nobody claims to know what only that shard could tell.
    assert not {"no_conductor", "next"} & waiting.keys()
    assert "alice" in claimed["claimed"]
    assert "owner_unknown" not in claimed
    folders.bring_back("abc"[away])
    assert "shard_away" not in told(board, first)


def test_why_names_a_shard_that_has_the_slots_and_is_away(folders: Folders, jobs: list[Job], board: JobBoard) -> None:
    board.claim(jobs[2], "alice")
    board.limits.set(name=NAME, running=1)
    board.close()
    take_away(folders, 2)
    board.connect()
    for job in jobs[:2]:
        text = told(board, job)["name_slots"]
        assert "Shard 2 has 1, and does not answer; it keeps that until it is back." in text


def test_why_goes_on_without_the_shard_that_keeps_the_limits(
    folders: Folders, jobs: list[Job], board: JobBoard
) -> None:
    board.limits.set(name=NAME, running=1)
    board.close()
    take_away(folders, 0)
    board.connect()
    text = told(board, jobs[1])["shard_away"]
    assert "how many jobs of its name run there" in text
    assert "which shards may run jobs of its name" in text


def test_a_job_of_the_shard_that_is_away_is_refused_by_its_name(
    folders: Folders, jobs: list[Job], away: int, capsys: pytest.CaptureFixture[str]
) -> None:
    take_away(folders, away)
    for command in ("why", "show"):
        assert run(["--board", folders.uri, "--name", "jobs", command, jobs[away].uuid]) == UNAVAILABLE
        assert f"shard {away}: there is no directory" in capsys.readouterr().err


def test_commands_answer_with_the_rest_or_say_which_shard_is_away(
    folders: Folders, jobs: list[Job], away: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def told_by(command: list[str]) -> tuple[int, str, str]:
        status = run(["--board", folders.uri, "--name", "jobs", *command])
        printed = capsys.readouterr()
        return status, printed.out, printed.err.rstrip().rpartition("\n")[2]

    for command in REFUSED:
        assert run(["--board", folders.uri, "--name", "jobs", *command]) == 0, command
    take_away(folders, away)
    capsys.readouterr()
    for command in REFUSED:
        status, _, error = told_by(command)
        assert (status, f"shard {away}: there is no directory" in error) == (UNAVAILABLE, True), (command, error)
        if command[0] not in ("pause", "boards"):
            assert error.endswith(ADVICE), command
    for command in (["status"], ["doctor"], ["shards"]):
        status, output, _ = told_by(command)
        assert status > 0
        assert f"shard {away}: " in output or command == ["shards"]
    # The first shard keeps the limits.
    assert told_by(["limits"])[0] == (UNAVAILABLE if away == 0 else 0)
    assert away or told_by(["limits"])[2].endswith(ADVICE)
    alive = jobs[(away + 1) % 3]
    for command in (["show", alive.uuid], ["why", alive.uuid]):
        status, output, _ = told_by(command)
        assert status == 0
        assert alive.uuid in output or f"Shard {away} does not answer" in output


def test_pages_of_the_console_say_which_shard_is_away(folders: Folders, jobs: list[Job], away: int) -> None:
    take_away(folders, away)
    with folders.fetch() as board:
        console = asking(board)
        alive = console.get(f"/b/jobs/jobs/{jobs[(away + 1) % 3].uuid}")
        assert alive.status_code == 200
        assert f"Shard {away} does not answer" in text_of(alive)
        answered = [
            path
            for path in ("jobs", "trash", "schedules", "conductors", "health", "lanes", "names")
            if (page := console.get(f"/b/jobs/{path}")).status_code != 503 or ADVICE not in text_of(page)
        ]
        assert answered == []
        assert f"shard {away}: there is no directory" in text_of(console.get("/b/jobs/"))
