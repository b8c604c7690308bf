"""``board.keep`` in a process that is paused for longer than its claim lasts."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from harnesses.fixtures import a_harness, a_server
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard.testing import eventually

_PROCESS = Path(__file__).parent / "harnesses" / "keeper_process.py"

server = a_server(RedisServer)
harness = a_harness(RedisHarness)


def test_a_paused_process_is_told_and_its_late_write_is_refused(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board()
    job = board.post("resize")
    command = [sys.executable, str(_PROCESS), server.uri, board.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "claimed\n"
            process.send_signal(signal.SIGSTOP)
            [mine] = eventually(lambda: board.claim_next("other", expiry=600.0), within=60)
            process.send_signal(signal.SIGCONT)
            assert process.stdout.readline() == "lost\n"
            assert process.stdout.readline() == "refused, claimed by other\n"
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert (mine, job.owner, job.attempts) == (job, "other", 2)
    board.consume(mine, "other", "mine")
    assert job.result == "mine"
