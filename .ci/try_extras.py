"""Installs the built wheel with each extra into an empty environment, and uses what the extra is for.

tox names the wheel in TOX_PACKAGE. uv makes the environments, since pip takes ten times as long.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_NO_SERVER = "import jobboard; b = jobboard.fetch('b', {!r}); print(b.store)"
_POST = "import jobboard\nwith jobboard.backend('b', {!r}) as b: b.post('a'); assert b.job_count == 1"

_RUN = "from jobboard.cli.app import run as jobboard\n"
_STOP_SOON = "import os, signal, threading; threading.Timer(2, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
_SERVE = "['--board', 'sqlite:///jobs.db', 'serve', '--port', '0']"

#: What works with an extra and nothing else; "" is without any. No server is started: making a board loads its driver.
USES = {
    "": _POST.format("sqlite:///jobs.db"),
    "aio": "import anyio, jobboard.aio as aio\n"
    "async def post():\n async with aio.backend('b', 'memory://b') as b: await b.post('a')\n"
    "anyio.run(post)",
    "apscheduler": "from jobboard import Cron; print(Cron('0 3 * * *', tz='Europe/Berlin'))",
    "cli": f"{_RUN}assert jobboard(['doctor']) == 0\n"
    "assert jobboard(['--board', 'sqlite:///jobs.db', 'post', 'a']) == 0\n"
    # What needs another extra says so, and is no bug.
    f"assert jobboard({_SERVE}) == 2\n"
    "assert jobboard(['--board', 'sqlite:///jobs.db', 'metrics']) == 2\n"
    "assert jobboard(['--board', 'sqlite:///jobs.db', 'schedule', 'add', 's', 'a', '--cron', '@daily']) == 2",
    "console": f"{_RUN}assert jobboard(['--board', 'sqlite:///jobs.db', 'post', 'a']) == 0\n"
    f"{_STOP_SOON}assert jobboard({_SERVE}) == 0",
    "django": "import django, jobboard.contrib.django",
    "etcd": _NO_SERVER.format("etcd://localhost:1"),
    "mysql": _NO_SERVER.format("mysql://u@localhost:1/d"),
    "otel": "import jobboard.telemetry.otel",
    "postgresql": _NO_SERVER.format("postgresql://u@localhost:1/d"),
    "prometheus": "import jobboard.telemetry.prometheus",
    "pydantic": "import pydantic, jobboard",
    "redis": _NO_SERVER.format("redis://localhost:1"),
    "scheduler": "from jobboard import Cron; print(Cron('0 3 * * *', tz='Europe/Berlin'))",
    "taskflow": "from jobboard.taskflow import *; from taskflow.jobs import backends\n"
    "with backends.backend('b', {'board': 'jobboard', 'uri': 'memory://'}) as b: b.post('a'); assert b.job_count == 1",
    "testing": "import jobboard.testing; jobboard.testing.memory_board",
    "zookeeper": _NO_SERVER.format("zookeeper://localhost:1"),
}
#: For those who change jobboard; lint installs them.
FOR_DEVELOPERS = {"dev", "docs"}


def main(wheel: Path) -> int:
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    extras = set(re.findall(r"^Provides-Extra: (\S+)", metadata, re.MULTILINE))
    if extras - FOR_DEVELOPERS != set(USES) - {""}:
        sys.stdout.write(
            f"extras without a use here, or the other way round: {extras - FOR_DEVELOPERS ^ set(USES) - {''}}\n"
        )
        return 1
    # They wait for the package index, most of the time.
    with ThreadPoolExecutor(6) as pool:
        return max(pool.map(lambda use: _try(wheel, *use), USES.items()))


def _try(wheel: Path, extra: str, code: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "env/bin/python")
        wanted = f"{wheel}[{extra}]" if extra else str(wheel)
        for command in (
            ["uv", "venv", "--quiet", "--python", sys.executable, str(python.parent.parent)],
            ["uv", "pip", "install", "--quiet", "--python", str(python), wanted],
            [str(python), "-I", "-c", code],
        ):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
            if done.returncode:
                sys.stdout.write(f"jobboard[{extra}] fails: {' '.join(command)}\n{done.stdout}{done.stderr}\n")
                return 1
    sys.stdout.write(f"jobboard[{extra}] installs and works\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(os.environ["TOX_PACKAGE"])))
