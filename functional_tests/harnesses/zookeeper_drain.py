"""Drains a board one job at a time, and says how many claims others were faster with. Run as a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

from jobboard import fetch


def main(uri: str, name: str, who: str) -> None:
    with fetch(name, uri) as board:
        backend: Any = board._backend
        # The listing is what every claim is drawn from; the race begins when all have one.
        assert board.job_count
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        consumed = []
        while jobs := board.claim_next(who):
            for job in jobs:
                board.consume(job, who)
                consumed.append(job.uuid)
        sys.stdout.write(json.dumps({"consumed": consumed, "lost": backend._selection.lost_claims}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
