"""What is installed: entry points, data files, and what a missing extra says."""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import pytest

import jobboard
from jobboard import UnknownBackend, backend, fetch
from jobboard.plugins import load_plugin, plugin_names


def test_every_public_name_is_there() -> None:
    for name in jobboard.__all__:
        assert getattr(jobboard, name) is not None
        assert name in dir(jobboard)
    assert sorted(jobboard.__all__) == jobboard.__all__
    with pytest.raises(AttributeError, match="'jobboard' has no attribute 'nonsense'"):
        _ = jobboard.nonsense  # type: ignore[attr-defined]


def test_type_checkers_see_the_names_that_are_imported_when_used() -> None:
    tree = ast.parse(Path(jobboard.__file__).read_text())
    shown = {
        alias.name: statement.module
        for block in tree.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert shown == jobboard._MODULES
    assert sorted(shown) == dir(jobboard)


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import jobboard", {"dataclasses", "msgpack", "jobboard.errors", "jobboard.board"}),
        ("import jobboard; jobboard.fetch", {"zoneinfo", "jobboard.conductor", "jobboard.schedules"}),
        ("import jobboard.cli.app", {"rich", "msgpack", "jobboard.board", "jobboard.conductor", "jobboard.schedules"}),
        ("from jobboard.cli.app import run; run(['--help'])", {"jobboard.cli.operating", "jobboard.backends.rows"}),
    ],
)
def test_what_takes_long_to_import_is_imported_when_used(code: str, heavy: set[str]) -> None:
    assert loaded_by(code) & heavy == set()


def loaded_by(code: str) -> set[str]:
    """Run code in a new interpreter; return the names of the modules that it has then."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_the_function_and_the_module_backend_live_side_by_side() -> None:
    from jobboard.backends.base import Backend

    assert callable(jobboard.backend)
    assert isinstance(Backend, type)


@pytest.mark.parametrize("namespace", ["jobboard.backends", "jobboard.executors"])
def test_every_entry_point_loads(namespace: str) -> None:
    for name in plugin_names(namespace):
        assert isinstance(load_plugin(namespace, name), type)


def test_the_package_says_that_it_is_typed_and_carries_lua() -> None:
    assert resources.files("jobboard").joinpath("py.typed").is_file()
    assert resources.files("jobboard.lua").joinpath("__init__.py").is_file()


def test_every_lua_file_is_package_data() -> None:
    root = Path(__file__).parent.parent
    config = configparser.ConfigParser()
    config.read(root / "setup.cfg")
    patterns = config["options.package_data"]["jobboard.lua"].split(", ")
    carried = {file for pattern in patterns for file in (root / "lua").glob(pattern)}
    assert carried == set((root / "lua").rglob("*.lua"))


def test_every_package_is_listed() -> None:
    """A list, because the folder lua stands at the top and becomes jobboard.lua, which no finder finds."""
    root = Path(__file__).parent.parent
    config = configparser.ConfigParser()
    config.read(root / "setup.cfg")
    listed = config["options"]["packages"].split()
    there = [str(file.parent.relative_to(root)).replace("/", ".") for file in root.glob("jobboard/**/__init__.py")]
    assert sorted(listed) == sorted([*there, "jobboard.lua"])


def test_an_unknown_backend_lists_the_known_ones() -> None:
    with pytest.raises(UnknownBackend, match=r"'rabbit'.*memory.*sqlite"):
        fetch("jobs", "rabbit://localhost")


def test_a_missing_package_says_what_to_install() -> None:
    code = "import sys; sys.modules['sqlalchemy'] = None\nimport jobboard\njobboard.fetch('jobs', 'sqlite:///x.db')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "sqlalchemy" in done.stderr.splitlines()[-1]
    assert "pip install 'jobboard'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("package", "use", "extra"),
    [
        ("anyio", "import jobboard.aio", "aio"),
        ("cronsim", "import jobboard.apscheduler", "apscheduler"),
        ("starlette", "import jobboard.console", "console"),
        ("django", "import jobboard.contrib.django", "django"),
        ("django", "import jobboard.contrib.django.apps", "django"),
        ("opentelemetry", "from jobboard.telemetry.otel import OpenTelemetryRecorder as Recorder; Recorder()", "otel"),
        (
            "prometheus_client",
            "from jobboard.telemetry.prometheus import PrometheusRecorder as Recorder; Recorder()",
            "prometheus",
        ),
        ("taskflow", "import jobboard.taskflow", "taskflow"),
        ("pytest", "from jobboard.testing import Contract", "testing"),
    ],
)
def test_a_missing_extra_is_named(package: str, use: str, extra: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None\n{use}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    error = done.stderr.splitlines()[-1]
    assert error.startswith("jobboard.errors.MissingExtra: "), done.stderr
    assert f"pip install 'jobboard[{extra}]'" in error


@pytest.mark.parametrize(
    ("package", "command", "extra"),
    [
        ("jinja2", "serve", "console"),
        ("uvicorn", "serve", "console"),
        ("prometheus_client", "metrics", "prometheus"),
        ("cronsim", "schedule add nightly count --cron @daily", "scheduler"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(tmp_path: Path, package: str, command: str, extra: str) -> None:
    board = f"sqlite:///{tmp_path}/jobs.db"
    with backend("jobs", board):
        pass
    code = f"import sys; sys.modules[{package!r}] = None; from jobboard.cli import main; main()"
    arguments = [sys.executable, "-c", code, "--board", board, *command.split()]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert f"pip install 'jobboard[{extra}]'" in done.stderr
    assert "bug" not in done.stderr


def test_the_core_needs_no_more_than_it_says() -> None:
    needed = [line for line in metadata.requires("jobboard") or [] if "extra ==" not in line]
    assert sorted(line.split(">")[0].lower() for line in needed) == ["msgpack", "sqlalchemy", "stevedore"]
    assert {"click", "rich", "redis", "pytest", "sqlalchemy"} & loaded_by("from jobboard import *") == set()


def test_a_board_in_a_file_loads_no_dialect_of_a_server(tmp_path: Path) -> None:
    code = f"import jobboard\nwith jobboard.open('jobs', 'sqlite:///{tmp_path}/jobs.db') as board: board.post('resize')"
    loaded = loaded_by(code)
    assert "sqlalchemy.dialects.sqlite" in loaded
    assert not {"sqlalchemy.dialects.mysql", "sqlalchemy.dialects.postgresql"} & loaded
