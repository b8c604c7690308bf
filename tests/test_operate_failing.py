"""The finding of jobs that fail now: what failed two days ago comes after it, and success ends it."""

from __future__ import annotations

from typing import Any

from jobboard import JobBoard, Posting
from jobboard.operate.overview import MAX_TRASH_READ
from jobboard.operate.sampling import Sampler
from jobboard.operate.status import status
from jobboard.testing import clock_of, eventually, memory_board


def fail(board: JobBoard, name: str, *errors: str, delay: float | None = None) -> None:
    """Let one job fail with each of these errors: for good, or with a retry later."""
    for error in errors:
        board.post(name)
        [job] = board.claim_next("w", {name})
        if delay is None:
            board.trash(job, "w", reason=error, error=error)
        else:
            board.abandon(job, "w", delay=delay, reason=error, error=error)


def told(view: dict[str, Any]) -> dict[str, str]:
    return {each["about"]: each["text"] for each in view["findings"] if each["kind"] == "failing"}


def test_what_fails_tonight_comes_before_what_failed_two_days_ago() -> None:
    with memory_board() as board:
        fail(board, "invoice", *["OSError: no route"] * 5)
        assert "most often (5 of 5): OSError: no route" in told(status(board))["invoice"]
        clock_of(board).move(2 * 86_400)
        assert told(status(board)) == {}
        fail(board, "invoice", "KeyError: 'iban'", "KeyError: 'vat_rate'", "KeyError: 'iban'")
        view = status(board)
        assert "3 of those that were read" in told(view)["invoice"]
        assert "most often (2 of 3): KeyError: 'iban'" in told(view)["invoice"]
        kinds = [each["kind"] for each in view["findings"]]
        assert kinds.index("failing") < kinds.index("trash")
        assert [group["kind"] for group in view["trash"]] == [
            "KeyError: 'iban'",
            "KeyError: 'vat_rate'",
            "OSError: no route",
        ]


def trash_told(board: JobBoard) -> list[str]:
    return [
        each["text"].removesuffix(f" {each['cure']}") for each in status(board)["findings"] if each["kind"] == "trash"
    ]


def test_what_has_failed_just_now_is_told_once() -> None:
    with memory_board() as board:
        fail(board, "invoice", *["OSError: no route"] * 3)
        view = status(board)
        assert [each["kind"] for each in view["findings"]] == ["failing"]
        for job in board.post_many([Posting("invoice")] * 4):
            board.trash(job, by="ada", reason="not needed")
        assert trash_told(board) == ["4 more jobs named 'invoice' in the trash."]
        clock_of(board).move(86_400)
        assert "7 jobs named 'invoice' in the trash." in trash_told(board)[0]


def test_of_a_large_trash_what_was_not_read_counts_as_what_was() -> None:
    with memory_board() as board:
        fail(board, "invoice", *["OSError: no route"] * (MAX_TRASH_READ + 5))
        assert (list(told(status(board))), trash_told(board)) == (["invoice"], [])


def test_a_failed_parent_that_fails_now_is_left_out_of_the_trash_once() -> None:
    with memory_board() as board:
        parent = board.post("invoice")
        board.post("mail", after=[parent])
        for job in board.claim_next("w", {"invoice"}):
            board.trash(job, "w", reason="OSError: no route", error="OSError: no route")
        fail(board, "invoice", *["OSError: no route"] * 2)
        board.trash(board.post("invoice"), by="ada", reason="not needed")
        assert trash_told(board) == ["1 more job named 'invoice' in the trash."]


def test_jobs_that_wait_for_a_retry_tell_of_their_errors_too() -> None:
    with memory_board() as board:
        fail(board, "sms", "E: 1", "E: 2", "E: 3", delay=600)
        fail(board, "mail", "E: 1", "E: 2", delay=600)
        fail(board, "sleeps", *["it sleeps for 5 s"] * 4, delay=600)
        board.post_many([Posting("later", delay=600)] * 4)
        for job in board.post_many([Posting("by hand")] * 4):
            board.trash(job, by="ada", reason="E: 1")
        assert list(told(status(board))) == ["sms"], "two are no rule, and who sleeps or was put aside has not failed"


def test_a_sampler_says_which_share_of_the_attempts_failed() -> None:
    with memory_board() as board:
        sampler = Sampler(board)
        sampler.look()
        fail(board, "invoice", *["E: 1"] * 6)
        fail(board, "mail", *["E: 1"] * 4)
        for name, number in (("invoice", 6), ("mail", 96)):
            board.post_many([Posting(name)] * number)
            for job in board.claim_next("w", {name}, limit=number):
                board.consume(job, "w")

        def said() -> dict[str, str]:
            sampler.look()
            return told(sampler.newest or {"findings": []})

        # One in twenty-five is normal. The events of the last ends may come a moment later.
        eventually(lambda: (found := said()).keys() == {"invoice"} and "50 % of 12 attempts since " in found["invoice"])
        sampler.stop()
