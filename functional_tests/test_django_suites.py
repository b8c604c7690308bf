"""Django's own tests of tasks, from the source on PyPI, over boards; and our tests of the backend on Django 6.

Django 6 is for Python 3.12, but its tasks work on 3.11, too: see ``harnesses/django_6``. ``django-tasks``, which brings
them to Django 5.2, has no tests on PyPI.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.redis_servers import RedisServer

pytestmark = [pytest.mark.timeout(600), pytest.mark.turn_of("suites of Django")]

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "jobboard-tests"
VERSION = "6.1.3"
#: How many of Django's cases run, and how many are skipped: harnesses/django_suite.py names each, and why.
RUN, SKIPPED = 68, 8
#: Of tests/test_django_*.py those that Django's version has a part in.
OURS = ("backend", "worker", "admin")


def source_of_django() -> Path:
    """Return the unpacked source of Django, which is kept for other runs."""
    found = CACHE / f"django-{VERSION}"
    if found.exists():
        return found
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        # Not built: neither for this Python nor for any other.
        options = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--ignore-requires-python"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", *options, f"Django=={VERSION}", "--dest", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        if done.returncode and not os.environ.get("CI"):
            pytest.skip(f"the source of Django {VERSION} can't be had: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        [archive] = Path(folder).glob("*.tar.gz")
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")
        if not found.exists():
            (Path(folder) / f"django-{VERSION}").rename(found)
    return found


def environment_of(source: Path, *more: Path, **variables: str) -> dict[str, str]:
    path = os.pathsep.join(map(str, (HERE / "harnesses" / "django_6", source, *more)))
    return {**os.environ, "PYTHONPATH": path, **variables}


@pytest.fixture(params=["sqlite", "redis"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/board.db"
        return
    with RedisServer() as server:
        yield server.uri


def test_djangos_own_tests_pass(uri: str) -> None:
    source = source_of_django()
    environment = environment_of(source, source / "tests", HERE, SUITE_URI=uri)
    command = [sys.executable, str(HERE / "harnesses" / "django_suite.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["failed"] == [], done.stderr
    assert (told["run"], told["skipped"]) == (RUN, SKIPPED)


def test_our_tests_pass_with_django_6() -> None:
    files = [f"tests/test_django_{name}.py" for name in OURS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        command, env=environment_of(source_of_django()), cwd=HERE.parent, capture_output=True, text=True, timeout=500,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
