"""The peers' environments: made by the first run, and kept in a cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.peers.peer import Peer

_LONGEST_INSTALL = 600


class NotInstalled(Exception):
    """A peer's packages can't be had; says why."""


def cache_folder() -> Path:
    """Return where environments are kept; ``JOBBOARD_BENCH_CACHE`` says another place than the user's cache."""
    given = os.environ.get("JOBBOARD_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "jobboard-benchmarks"


def python_of(peer: Peer, store: str) -> str:
    """Return the Python that has this peer's packages; installs them the first time."""
    if not peer.requirements:
        return sys.executable
    folder = cache_folder() / store / Path(peer.script).stem
    python, receipt = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join(peer.requirements)
    if not receipt.exists() or receipt.read_text() != wanted:
        venv.EnvBuilder(clear=True, with_pip=True).create(folder)
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *peer.requirements]
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_INSTALL, check=False)
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"pip took longer than {_LONGEST_INSTALL} s") from None
        if said.returncode:
            lines = said.stderr.strip().splitlines()
            raise NotInstalled(lines[-1] if lines else "pip failed")
        receipt.write_text(wanted)
    return str(python)
