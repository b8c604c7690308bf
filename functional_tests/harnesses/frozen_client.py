"""``python frozen_client.py URI BOARD UUID``: cancels a job, and is stopped (SIGSTOP) before it commits that."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from jobboard import BoardUnavailable, NotFound, backend


def main(uri: str, name: str, uuid: str) -> None:
    with backend(name, uri) as board:
        job = board.get(uuid)
        database: Any = board._backend.database  # type: ignore[attr-defined]
        commit = database.driver.commit

        def stop_and_commit(*args: Any) -> None:
            database.driver.commit = commit
            os.kill(os.getpid(), signal.SIGSTOP)
            commit(*args)

        database.driver.commit = stop_and_commit
        try:
            board.cancel(job)
        except (BoardUnavailable, NotFound) as error:
            sys.stderr.write(f"{error}\n")
        else:
            sys.stdout.write("cancelled\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
