"""TaskFlow's boards in a forked child."""

from __future__ import annotations

import os
from pathlib import Path

from jobboard.taskflow.board import TaskFlowBoard


def test_a_child_renews_no_claim_of_its_parent(tmp_path: Path) -> None:
    board = TaskFlowBoard("tasks", {"board": "jobboard", "uri": f"sqlite:///{tmp_path / 'jobs.db'}"})
    board.connect()
    try:
        board.claim(board.post("work"), "parent")
        child = os.fork()
        if child == 0:
            os._exit(len(board._keeper.runs_of("parent")))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(board._keeper.runs_of("parent")) == 1
    finally:
        board.close()
