"""``jobboard serve`` as a process, for browsers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def console(*arguments: str) -> Iterator[str]:
    """Serve a console on a free port; gives its address, such as ``http://127.0.0.1:41234``."""
    command = [sys.executable, "-m", "jobboard", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("console: "):
                yield line.removeprefix("console: ").strip().rstrip("/")
                break
        else:
            raise AssertionError(f"the console did not start: status {process.wait(60)}")
    finally:
        process.terminate()
        process.communicate(timeout=60)
