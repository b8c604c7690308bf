"""Code of earlier commits, and clients of it in processes of their own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from jobboard import BoardUnavailable

TESTS = Path(__file__).parent.parent
#: A commit of each earlier layout.
OF_LAYOUT = {1: "6aa72804", 2: "103e92cf", 3: "badaa5ce"}
#: The commit before the one that is tested.
BEFORE = "HEAD~1"


def unpack(commit: str, folder: Path) -> Path:
    """Write the package of a commit into a folder, and return that; skips the test if this clone lacks the commit."""
    command = ["git", "-c", "safe.directory=*", "archive", commit, "jobboard", "lua"]
    archived = subprocess.run(command, cwd=TESTS.parent, capture_output=True, check=False)
    if archived.returncode != 0:
        pytest.skip(f"this clone has no commit {commit}: {archived.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    # As setup.cfg maps it.
    (folder / "jobboard" / "lua").symlink_to(folder / "lua")
    return folder


def environment_of(code: Path) -> dict[str, str]:
    """Return the environment of a process that imports this code, and modules of the tests."""
    return {**os.environ, "PYTHONPATH": f"{code}{os.pathsep}{TESTS}"}


class Client:
    """A client of other code than ours, until the end of the block."""

    def __init__(self, code: Path, uri: str) -> None:
        # -P keeps the present folder, which may have our code, off the path.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "layouts.client_process", uri],
            env=environment_of(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

    def ask(self, call: str) -> Any:
        """Return what a call of ``client_process`` returned, or raise what it raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{call}\n")
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise BoardUnavailable(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        """Let it close its board and end."""
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
