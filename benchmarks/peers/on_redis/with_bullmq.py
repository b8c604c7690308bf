"""BullMQ: its own scripts on Node.js; this one only hands on what is to be posted, and what the worker says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from measuring import System, arguments, forward, measure

_HERE = Path(__file__).parent


class Bullmq(System):
    has_batches = has_limits = has_graphs = True

    def __init__(self, uri: str) -> None:
        self._uri, self._rate = uri, 0
        manifest = Path(os.environ["NODE_PATH"]) / "bullmq" / "package.json"
        self.version = f"bullmq {json.loads(manifest.read_text())['version']}"
        self._poster = subprocess.Popen(
            ["node", str(_HERE / "bullmq_poster.js"), uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ask("ready")

    def _ask(self, *words: object) -> None:
        """Have the poster do something, and wait until it is done."""
        assert self._poster.stdin is not None
        assert self._poster.stdout is not None
        self._poster.stdin.write(" ".join(map(str, words)) + "\n")
        self._poster.stdin.flush()
        if self._poster.stdout.readline().strip() != "done":
            raise RuntimeError("the poster has ended")

    def clean(self) -> None:
        self._rate = 0
        self._ask("clean")

    def post(self, count: int) -> None:
        self._ask("post", count)

    def post_many(self, count: int) -> None:
        self._ask("post_many", count)

    def limit(self, running: int | None, rate: int | None) -> None:
        """Limit the queue by its global concurrency; a rate is an option of its workers."""
        self._rate = rate or 0
        if running is not None:
            self._ask("limit", running)

    def fan_in(self, count: int) -> None:
        self._ask("fan_in", count)

    def ping(self, at: float) -> None:
        self._ask("ping", repr(at))

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri, str(self._rate)]

    def close(self) -> None:
        self._poster.terminate()
        self._poster.wait()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        forward(["node", str(_HERE / "bullmq_worker.js"), *sys.argv[2:]])
    else:
        uri, count, pings = arguments()
        system = Bullmq(uri)
        try:
            measure(system, count, pings)
        finally:
            system.close()
