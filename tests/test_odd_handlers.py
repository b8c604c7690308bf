"""Whatever handlers do, each executor runs ordinary jobs after them, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from helpers import odd_handlers

HERE = Path(__file__).parent


@pytest.mark.parametrize("executor", odd_handlers.EVERYWHERE)
def test_no_odd_handler_keeps_an_executor_from_its_work(executor: str, tmp_path: Path) -> None:
    """In a program of their own, since they close, fork and change what all share."""
    before = {process.pid for process in psutil.process_iter()}
    program = [sys.executable, "-m", "helpers.run_odd_handlers", executor]
    environment = os.environ | {"ODD_HANDLERS": str(tmp_path)}
    with (tmp_path / "errors").open("w") as errors:
        done = subprocess.run(
            program,
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=240,
            check=False,
            env=environment,
        )
    ran = dict(map(json.loads, done.stdout.splitlines()))
    assert {label: fault for label, fault in ran.items() if fault} == {}
    assert list(ran) == [*(label for label, _, _ in odd_handlers.postings(executor)), "the end"]
    assert done.returncode == 0, (tmp_path / "errors").read_text()[-2000:]
    left = [
        process
        for process in psutil.process_iter()
        if process.pid not in before and is_of_this_run(process, str(tmp_path))
    ]
    assert psutil.wait_procs(left, 10)[1] == []


def is_of_this_run(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("ODD_HANDLERS") == mark
    except psutil.Error:
        return False
