"""What the tests of the applications in ``examples/`` share."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable

from jobboard import Job, JobBoard, JobState

#: Seconds, on a machine that is busy elsewhere.
WITHIN = 100

#: Starts a module as a process; its arguments follow.
Run = Callable[..., subprocess.Popen[bytes]]


def claimed_by(conductor: subprocess.Popen[bytes], board: JobBoard) -> list[Job]:
    """Return what it has claimed while it stands still; if there is any, nothing lets it go on."""
    conductor.send_signal(signal.SIGSTOP)
    claimed = list(board.iterjobs(states={JobState.CLAIMED}))
    if not claimed:
        conductor.send_signal(signal.SIGCONT)
    return claimed
