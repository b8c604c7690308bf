"""``python keeper_process.py URI BOARD``: claims a job, keeps it until its loss is told, and consumes it then."""

from __future__ import annotations

import sys
import threading

from jobboard import ClaimLost, backend


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(uri: str, name: str) -> None:
    lost = threading.Event()
    with backend(name, uri) as board, board.keep("worker", 3.0, lambda job: lost.set()):
        [job] = board.claim_next("worker", expiry=3.0)
        say("claimed")
        say("lost" if lost.wait(120) else "kept")
        try:
            board.consume(job, "worker", "late")
        except ClaimLost as error:
            say(f"refused, claimed by {error.owner}")


if __name__ == "__main__":
    main(*sys.argv[1:])
