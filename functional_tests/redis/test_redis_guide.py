"""*Beyond one machine* is typed as it is written, on a Redis Cluster of three nodes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from harnesses.guides import blocks_of
from servers.base import free_port

_END = "\nkill $(jobs -p); wait; for port in 7000 7001 7002; do redis-cli -p $port shutdown nosave; done\n"


def test_a_board_of_twelve_shards_outlives_a_node(tmp_path: Path) -> None:
    blocks = blocks_of("beyond-one-machine")
    shell = [block for kind, block in blocks if kind == "shell"]
    work = next(block for kind, block in blocks if kind == "python")
    (tmp_path / "work.py").write_text(work)
    script = "\necho --- $?\n".join([*shell, _END])
    for port in ("7000", "7001", "7002"):
        script = script.replace(port, str(free_port(10_000)))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    parts = done.stdout.split("--- ")
    assert "All 16384 slots covered" in parts[0], done.stderr
    working, down, back = parts[3:6]
    assert "board 'reports' on shards" in working, done.stderr
    assert "BAD" not in working
    assert "BAD" in down
    assert re.search(r"shards? \d", down)
    assert back.startswith("2\n"), "the exit status of the look before"
    assert re.search(r"^\(all\)\s+0\s+0\s+0\s+0", back, re.MULTILINE), done.stdout + done.stderr
