"""Work in a forked child."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

import pytest

from jobboard.testing.deadline import DEADLINE

#: Later Pythons warn of forks in a process with threads; that they go well here is what is tested.
FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def in_child(work: Callable[[], None]) -> int:
    """Return the exit code of a child that does some work: 0 if it all went well."""
    pid = os.fork()
    if pid == 0:
        code = 1
        # A child whose test has failed must not wait for it for ever.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(round(DEADLINE))
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
