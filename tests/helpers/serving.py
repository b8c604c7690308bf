"""How tests run ``jobboard serve`` as users do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def serving(*arguments: str, said: list[str] | None = None, **environment: str) -> Iterator[str]:
    """Run the command on a free port until the block ends, and give its address, ``http://127.0.0.1:PORT``.

    :param said: gets the lines of its standard error when it has ended.
    """
    command = [sys.executable, "-m", "jobboard", "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | environment) as server:
        try:
            assert server.stderr is not None
            before = list[str]()
            while not (line := server.stderr.readline()).startswith("console: http://127.0.0.1:"):
                before.append(line)
                assert line, "".join(before)
            yield "/".join(line.split()[1].split("/")[:3])
            server.send_signal(signal.SIGTERM)
            _, rest = server.communicate(timeout=60)
            assert server.returncode == 0, rest
            if said is not None:
                said.extend([*map(str.rstrip, before), *rest.splitlines()])
        finally:
            server.kill()
