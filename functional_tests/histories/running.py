"""A history that a process of its own makes, so that those of several stores go on beside each other."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path


class Running:
    """A history that is being made.

    :param options: further options of ``python -m functional_tests.histories``.
    """

    def __init__(self, store: str, folder: Path, seconds: float, seed: str, *options: str) -> None:
        self._output = folder / "output"
        command = [sys.executable, "-m", "functional_tests.histories", "--store", store, "--seed", seed]
        command += ["--minutes", str(seconds / 60), "--rate", "6", "--keep", str(folder), *options]
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                command, cwd=Path(__file__).parent.parent.parent, stdout=output, stderr=subprocess.STDOUT
            )

    def wait(self) -> tuple[int, str]:
        """Return its status and what it said."""
        return self._process.wait(), self._output.read_text()

    def stop(self) -> None:
        if self._process.poll() is None:
            # It stops its servers and processes by itself.
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
