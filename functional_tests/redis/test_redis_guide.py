"""*Beyond one machine* is typed as it is written, on a Redis Cluster of three nodes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from harnesses.guides import blocks_of
from servers.base import free_port

_PORTS = ("7000", "7001", "7002")


def _type(script: str, folder: Path, ports: Sequence[str]) -> tuple[str, str]:
    """Have a shell run it, and return what it prints; nothing of it goes on, also if it takes too long."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = subprocess.Popen(
        ["bash", "-c", script], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        return shell.communicate(timeout=110)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
        for port in ports:
            subprocess.run(["redis-cli", "-p", port, "shutdown", "nosave"], capture_output=True, check=False)


@pytest.mark.turn_of("a guide's Redis Cluster")
def test_a_board_of_twelve_shards_outlives_a_node(tmp_path: Path) -> None:
    blocks = blocks_of("beyond-one-machine")
    shell = [block for kind, block in blocks if kind == "shell"]
    work = next(block for kind, block in blocks if kind == "python")
    (tmp_path / "work.py").write_text(work)
    script, ports = "\necho --- $?\n".join([*shell, "kill $(jobs -p); wait"]), [str(free_port(10_000)) for _ in _PORTS]
    for written, port in zip(_PORTS, ports, strict=True):
        script = script.replace(written, port)
    out, err = _type(script, tmp_path, ports)
    parts = out.split("--- ")
    assert "All 16384 slots covered" in parts[0], err
    working, down, back = parts[3:6]
    assert "board 'reports' on shards" in working, err
    assert "BAD" not in working
    assert "BAD" in down
    assert re.search(r"shards? \d", down)
    assert back.startswith("2\n"), "the exit status of the look before"
    assert re.search(r"^\(all\)\s+0\s+0\s+0\s+0", back, re.MULTILINE), out + err
