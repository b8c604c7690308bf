"""The peers' environments: made by the first run, and kept in a cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

from benchmarks.peers.peer import JOBBOARD, Peer

_INSTALL_TIMEOUT = 600
_HERE = Path(__file__).parent


class NotInstalled(Exception):
    """A peer's packages can't be had; says why."""


def cache_folder() -> Path:
    """Return where environments are kept; ``JOBBOARD_BENCH_CACHE`` says another place than the user's cache."""
    given = os.environ.get("JOBBOARD_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "jobboard-benchmarks"


def board_of(folder: Path, extra: str) -> Peer:
    """Return the board of another checkout, as a peer with an environment of its own."""
    return replace(JOBBOARD, name="before", requirements=("-e", f"{folder.resolve()}[{extra}]"), is_board=False)


def python_of(peer: Peer, store: str) -> str:
    """Return the Python that has this peer's packages; installs them the first time."""
    if peer.is_board:
        return sys.executable
    folder = _folder_of(peer, store)
    python, receipt = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join([*peer.requirements, *peer.node])
    if not receipt.exists() or receipt.read_text() != wanted:
        venv.EnvBuilder(clear=True, with_pip=True).create(folder)
        if peer.requirements:
            _install([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *peer.requirements])
        if peer.node:
            npm = shutil.which("npm")
            if npm is None:
                raise NotInstalled("it runs on Node.js: install node and npm")
            _install([npm, "install", "--silent", "--no-audit", "--prefix", str(folder), *peer.node])
        receipt.write_text(wanted)
    return str(python)


def variables_of(peer: Peer, store: str) -> dict[str, str]:
    """Return the environment variables under which this peer's script finds what it imports."""
    paths = [str(_HERE / f"on_{store}"), str(_HERE)]
    if peer.is_board:
        paths.append(str(_HERE.parent.parent))
    modules = {"NODE_PATH": str(_folder_of(peer, store) / "node_modules")} if peer.node else {}
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", **modules}


def _folder_of(peer: Peer, store: str) -> Path:
    return cache_folder() / store / Path(peer.script).stem


def _install(command: list[str]) -> None:
    program = Path(command[0]).name
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{program} took longer than {_INSTALL_TIMEOUT} s") from None
    if said.returncode:
        lines = said.stderr.strip().splitlines()
        raise NotInstalled(lines[-1] if lines else f"{program} failed")
