"""The board: what users hold. It validates, encodes, fences and maps errors, and holds no store code."""

from jobboard.board.board import JobBoard, claims_for, client_of, extend_each, handles_of, lend, register
from jobboard.board.ends import suspend, trash_with, wait_for_jobs, wait_for_jobs_of_step
from jobboard.board.postings import check_follow_up

__all__ = [
    "JobBoard",
    "check_follow_up",
    "claims_for",
    "client_of",
    "extend_each",
    "handles_of",
    "lend",
    "register",
    "suspend",
    "trash_with",
    "wait_for_jobs",
    "wait_for_jobs_of_step",
]
