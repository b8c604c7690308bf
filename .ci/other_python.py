"""Runs a part of the tests on another version of Python than CI's own, if one is here or Debian has it.

The argument is the version; without it each day has its own of those that setup.cfg names. What can't be had is
skipped, and said. Nothing is installed on the system: packages of Debian's next release, with its C library, are
unpacked below the cache's folder, and the interpreter is told to load that library.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

#: Every module is imported; then a tenth of the contract on the stores that need no server and on shards, asyncio, the
#: types of handlers and the command line.
CONTRACTS = ("memory/test_contract_memory.py", "sql/test_contract_sqlite.py", "shards/test_contract_memory_shards.py")
FILES = ("test_errors_public.py", "test_aio_board.py", "test_handlers.py", "test_tasks.py", "test_cli_output.py")
TESTS = (*(f"tests/{file}" for file in (*CONTRACTS, *FILES)), "-k", " or ".join(("wake", "conductor", "post", *FILES)))
EXTRAS = (
    "aio,cli,console,django,etcd,mysql,otel,postgresql,prometheus,pydantic,redis,scheduler,taskflow,testing,zookeeper"
)
FURTHER = (
    "APScheduler>=3.11,<4",
    "httpx>=0.27",
    "psutil>=5.9",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.5",
    "trio>=0.32",
)
#: Debian's testing, whose name is that of its next release for good.
_SUITE = "forky"
_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_APT = """
Dir::State "{0}/state";
Dir::State::status "{0}/status";
Dir::Cache "{0}/cache";
Dir::Etc::sourcelist "{0}/sources.list";
Dir::Etc::sourceparts "{0}/none";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
"""
#: Seconds for downloads.
_TIMEOUT = 120


def versions() -> list[str]:
    """Return those beside our own."""
    settings = configparser.ConfigParser()
    settings.read("setup.cfg")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = re.findall(r"Python :: (3\.\d+)$", settings["metadata"]["classifiers"], re.MULTILINE)
    return [version for version in found if version != own]


def interpreter(version: str) -> Path | None:
    """Return one that is here, else Debian's; None if there is neither."""
    named = [Path(found)] if (found := shutil.which(f"python{version}")) else []
    here = [*named, *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    return next((path for path in here if works(path)), None) or unpacked(version)


def works(python: Path) -> bool:
    return subprocess.run([python, "-c", "import sqlite3, ssl"], check=False, capture_output=True).returncode == 0


def unpacked(version: str) -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jobboard"
    folder = cache / f"python{version}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            try:
                unpack(version, Path(temporary), folder)
            except (OSError, subprocess.SubprocessError) as error:
                sys.stdout.write(f"{error}\n")
                return None
    return folder / f"usr/bin/python{version}"


def unpack(version: str, work: Path, folder: Path) -> None:
    """Make a folder of the packages that this version needs, all of it or nothing."""
    (work / "status").touch()
    for name in ("state/lists/partial", "cache/archives/partial", "none"):
        (work / name).mkdir(parents=True)
    (work / "sources.list").write_text(f"deb [signed-by={_KEYS}] http://deb.debian.org/debian {_SUITE} main\n")
    (work / "apt.conf").write_text(_APT.format(work))
    apt = {**os.environ, "APT_CONFIG": str(work / "apt.conf")}
    run("apt-get", "update", "-qq", env=apt)
    run("apt-get", "install", "-qq", "-y", "--download-only", f"python{version}", env=apt)
    for package in (work / "cache/archives").glob("*.deb"):
        run("dpkg-deb", "-x", str(package), str(work / "root"))
    [loader] = (work / "root/usr/lib").glob("*-linux-gnu*/ld-linux-*")
    libraries = folder / loader.parent.relative_to(work / "root")
    patch = ["--set-interpreter", str(libraries / loader.name), "--force-rpath", "--set-rpath", str(libraries)]
    run("patchelf", *patch, str(work / f"root/usr/bin/python{version}"))
    (work / "root").rename(folder)


def run(*command: str, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, check=True, timeout=_TIMEOUT, stdin=subprocess.DEVNULL, env=env)


def main() -> int:
    known = versions()
    version = sys.argv[1] if len(sys.argv) > 1 else known[datetime.now(UTC).toordinal() % len(known)]
    python = interpreter(version)
    if python is None:
        sys.stdout.write(f"SKIPPED [1] Python {version}: it is not here, and Debian's can't be had\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "VIRTUAL_ENV": folder}
        try:
            run("uv", "venv", "--quiet", "--clear", "--python", str(python), folder)
            run("uv", "pip", "install", "--quiet", "-e", f".[{EXTRAS}]", *FURTHER, env=environment)
        except subprocess.SubprocessError as error:
            sys.stdout.write(f"SKIPPED [1] Python {version}: its libraries can't be had: {error}\n")
            return 0
        sys.stdout.write(f"Python {version}: {python}\n")
        sys.stdout.flush()
        return subprocess.call([f"{folder}/bin/python", ".ci/run_tests.py", "-n", "2", *(sys.argv[2:] or TESTS)])


if __name__ == "__main__":
    sys.exit(main())
