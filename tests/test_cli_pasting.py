"""Commands that are printed to be copied: a shell takes each apart, and it does what was meant, and no more."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from jobboard import Entity, Every, Job, JobBoard, Limit, Schedule
from jobboard.backends.rows import Abandonment, Fence
from jobboard.board import client_of
from jobboard.cli.app import OK, run
from jobboard.console import mending
from jobboard.operate.failing import Attempts, told_failing
from jobboard.operate.finding import find_job
from jobboard.operate.limits import command_for
from jobboard.operate.pasting import file_argument
from jobboard.operate.schedule_findings import told_missed, told_pauses, told_skips
from jobboard.operate.why import why
from jobboard.quiet import quiet_ones, set_quiet

pytest_plugins = ("helpers.command_fixtures",)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
#: Prints each argument of ``jobboard``, and a NUL after it, as the shell hands them on.
_SHELL = "jobboard() { printf '%s\\0' \"$@\"; }; "
each_word = pytest.mark.parametrize("word", ["--all", "-y", "--help", "--", "$(exit)`exit`", "-a 'b' \"c\";"])
Paste = Callable[[str], str]


@pytest.fixture
def paste(board: JobBoard, capsys: pytest.CaptureFixture[str]) -> Paste:
    """Run the last command of a text, and return what it printed; nothing may ask, warn or be refused."""

    def paste(text: str) -> str:
        shell = ["sh", "-c", _SHELL + text[text.rindex("jobboard ") :]]
        done = subprocess.run(shell, capture_output=True, text=True, check=True, timeout=20)
        capsys.readouterr()
        status = run(done.stdout.split("\0")[:-1])
        out, err = capsys.readouterr()
        assert (status, err, done.stderr) == (OK, "", ""), text
        assert "Usage:" not in out
        return out

    return paste


def cure_of(job: Job, kind: str) -> str:
    board = job.board
    assert isinstance(board, JobBoard)
    return next(f"{reason.said} {reason.cure}" for reason in why(board, board.get(job.uuid)) if reason.kind == kind)


@each_word
def test_a_schedule_alone_is_resumed_shown_and_fired(board: JobBoard, paste: Paste, word: str) -> None:
    board.schedules.add(Schedule(word, Every(hours=1), "a", paused=True))
    board.schedules.pause_all()
    [(_, _, resume)], [(_, _, show)] = told_pauses({word: None}, 1, ""), told_skips({word: 50}, "")
    [(_, _, see)] = told_missed({word: (1, NOW)}, "")
    paste(resume)
    assert (board.schedules.get(word).paused, board.schedules.all_paused() is None) == (False, False)
    for command in (show, see.partition(". Post it now")[0]):
        assert word in paste(command)
    paste(see)
    assert board.job_count == 1


@each_word
@pytest.mark.parametrize("kind", ["name_paused", "lane_paused"])
def test_a_name_or_a_lane_alone_is_resumed(board: JobBoard, paste: Paste, word: str, kind: str) -> None:
    job = board.post(word, lane=word)
    pause = board.pause if kind == "name_paused" else (lambda one: board.pause(lane=one))
    for cure in (lambda: cure_of(job, kind), lambda: mending.filled(mending.COMMANDS[kind], word)):
        pause(word)
        pause("x")
        paste(cure())
        assert not [one for one in why(board, job) if one.kind == kind]
    assert board.paused() == ({"x"} if kind == "name_paused" else set())
    assert [limit.paused for limit in board.limits] == ([] if kind == "name_paused" else [True])


@each_word
def test_a_conductor_alone_claims_again(board: JobBoard, paste: Paste, word: str) -> None:
    for who, name in ((word, "a"), ("x", "b")):
        told = {"names": [name], "concurrency": 1, "running": 0, "quiet": True}
        board.register_entity(Entity("conductor", who, told, 600))
    set_quiet(board, [word, "x"], True)
    paste(cure_of(board.post("a"), "quiet"))
    assert quiet_ones(board) == {"x"}


@each_word
def test_a_signal_is_sent(board: JobBoard, paste: Paste, word: str) -> None:
    job = board.post("a")
    token = board.claim(job, "w")
    client = client_of(board)
    client.call(
        client.backend.jobs.abandon, [Abandonment(Fence(job.uuid, "w", token), delay=0.0, counted=False, signal=word)]
    )
    paste(cure_of(job, "signal"))
    assert [signal.name for signal in board.get(job.uuid).signals()] == [word]


@each_word
def test_an_option_has_the_word_as_its_value(board: JobBoard, paste: Paste, word: str) -> None:
    job, other = board.post(word), board.post("x")
    for one in (job, other):
        board.trash(one, reason=f"{word}: broken")
    assert job.uuid in (out := paste(next(told_failing([], {word: Attempts(50, 50, 0.0)}))[2]))
    assert other.uuid not in out
    paste(command_for(Limit(word, running=3)))
    paste(command_for(Limit(lane=word, running=4)))
    assert {(limit.name, limit.lane, limit.running) for limit in board.limits} == {(word, None, 3), (None, word, 4)}


@each_word
def test_an_error_names_a_command(board: JobBoard, paste: Paste, word: str) -> None:
    with pytest.raises(Exception, match="jobboard ls") as caught:
        find_job(board, f"{word} !".replace(":", ""))
    paste(str(caught.value))


def test_a_file_is_no_option() -> None:
    assert [*map(file_argument, ("-x.toml", "--", "-", "x"))] == ["./-x.toml", "./--", "-", "x"]
