"""``python -m benchmarks house``: measures a checkout of this project by reading its files, and a few short runs.

It parses Python files and imports none of them. For the runs it copies the checkout to a folder of its own. Product
code is ``jobboard`` without ``jobboard.testing``, and ``lua``.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import print_rows

_ROOT = Path(__file__).parent.parent
_FIELDS = ("cancel_asked", "max_attempts", "checkpoint")
_RUNS = 7

#: What is measured, by its name in the table; a list is a number with what explains it.
Figures = dict[str, Any]


class Checkout:
    """The files of a folder that holds this project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.package = self.folder / "jobboard"
        if not self.package.is_dir():
            raise SystemExit(f"{folder} is no checkout of jobboard")
        self.python = sorted(self.package.rglob("*.py")) + sorted((self.folder / "lua").rglob("*.py"))
        self.lua = sorted((self.folder / "lua").rglob("*.lua"))
        testing = self.package / "testing"
        self.product = [path for path in self.python if not path.is_relative_to(testing)]
        self.texts = {path: path.read_text("utf-8") for path in self.python + self.lua}
        self.trees = {path: ast.parse(self.texts[path]) for path in self.python}

    def backends(self) -> dict[str, list[Path]]:
        """Return the files of each backend, by its name."""
        folders = sorted(path for path in (self.package / "backends").iterdir() if any(path.glob("*.py")))
        return {folder.name: [path for path in self.product if path.is_relative_to(folder)] for folder in folders}

    def module_of(self, path: Path) -> str:
        return ".".join(path.relative_to(self.folder).with_suffix("").parts).removesuffix(".__init__")


def read(checkout: Checkout) -> Figures:
    """Return what the files alone say."""
    return {
        **sizes(checkout),
        **complexity(checkout),
        **largest_selves(checkout),
        **mentions(checkout),
        "# fmt: skip": sum(checkout.texts[path].count("# fmt: skip") for path in checkout.product),
        **rooms(checkout),
    }


def sizes(checkout: Checkout) -> Figures:
    lines = {path: len(text.splitlines()) for path, text in checkout.texts.items()}
    product = {path: lines[path] for path in checkout.product + checkout.lua}
    longest = max(product, key=product.__getitem__)
    return {
        "product files": len(product),
        "product lines": sum(product.values()),
        "product lines, Python": sum(lines[path] for path in checkout.product),
        "product lines, Lua": sum(lines[path] for path in checkout.lua),
        "files with jobboard.testing": len(lines),
        "lines with jobboard.testing": sum(lines.values()),
        **{
            f"files and lines of {name}": [len(paths), sum(lines[path] for path in paths)]
            for name, paths in checkout.backends().items()
        },
        "lines of the median file": round(statistics.median(product.values())),
        "lines of the longest file": [product[longest], str(longest.relative_to(checkout.folder))],
    }


def complexity(checkout: Checkout) -> Figures:
    """Count as ruff's C901 does, and once more with what it leaves out: each ``and``, ``or`` and comprehension."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--ignore-noqa", "--exit-zero"]
    command += ["--select", "C901", "--config", "lint.mccabe.max-complexity=10", "--output-format", "json"]
    told = subprocess.run([*command, *map(str, checkout.product)], stdout=subprocess.PIPE, check=True).stdout
    ruled = [int(found[1]) for one in json.loads(told) if (found := re.search(r"\((\d+) > 10\)", one["message"]))]
    nodes = [node for path in checkout.product for node in ast.walk(checkout.trees[path])]
    defined = [node for node in nodes if isinstance(node, _FUNCTIONS)]
    counted = [decisions(node) for node in defined]
    return {
        "functions": len(defined),
        "functions with C901 over 10": len(ruled),
        "functions with C901 over 15": sum(value > 15 for value in ruled),
        "functions with complexity over 10": sum(value > 10 for value in counted),
        "functions with complexity over 15": sum(value > 15 for value in counted),
    }


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.comprehension)


def decisions(function: ast.AST) -> int:
    """Return 1 and the number of branches, with those of functions within, of ``and``, ``or`` and comprehensions."""
    nodes = list(ast.walk(function))
    branches = sum(isinstance(node, _BRANCHES) for node in nodes)
    filters = sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    return 1 + branches + filters + sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))


class Classes:
    """The classes of some modules, whose bases are found over imports.

    :param modules: each module's tree by its dotted name; that of a package is its ``__init__``.
    """

    def __init__(self, modules: dict[str, ast.Module]) -> None:
        self.found: dict[str, ast.ClassDef] = {}
        self._names: dict[str, dict[str, str]] = {}
        for module, tree in modules.items():
            self._names[module] = _names_of(tree)
            self.found |= {f"{module}.{node.name}": node for node in tree.body if isinstance(node, ast.ClassDef)}

    def line_of(self, name: str) -> set[str]:
        """Return a class with all that it inherits from, as far as they are in these modules."""
        line: set[str] = set()
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in line:
                line.add(one)
                waiting += self._bases_of(one)
        return line

    def methods_of(self, name: str) -> set[str]:
        """Return the names of all methods and properties that its instances have from these modules."""
        nodes = [node for one in self.line_of(name) for node in self.found[one].body]
        return {node.name for node in nodes if isinstance(node, _FUNCTIONS)}

    def largest(self, package: str) -> list[Any]:
        """Return the most methods that a class below ``package`` has, its name, and over how many classes they are."""
        below = sorted(name for name in self.found if name.startswith(f"{package}."))
        name = max(below, key=lambda one: len(self.methods_of(one)))
        return [len(self.methods_of(name)), name.rpartition(".")[2], f"of {len(self.line_of(name))} classes"]

    def _bases_of(self, name: str) -> list[str]:
        module = name.rpartition(".")[0]
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in self.found[name].bases]
        found = [self._resolve(f"{module}.{ast.unparse(base)}", set()) for base in bases]
        return [base for base in found if base is not None]

    def _resolve(self, dotted: str, seen: set[str]) -> str | None:
        """Return the class that a dotted name of a module stands for, however many modules it was imported through."""
        if dotted in self.found or dotted in seen:
            return dotted if dotted in self.found else None
        seen.add(dotted)
        parts = dotted.split(".")
        for end in range(len(parts) - 1, 0, -1):
            origin = self._names.get(".".join(parts[:end]), {}).get(parts[end])
            if origin is not None:
                return self._resolve(".".join([origin, *parts[end + 1 :]]), seen)
        return None


def _names_of(tree: ast.Module) -> dict[str, str]:
    """Return what the imports of a module name, with what it is called where it comes from."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname is not None}
            names |= {alias.name.partition(".")[0]: alias.name.partition(".")[0] for alias in node.names}
    return names


def largest_selves(checkout: Checkout) -> Figures:
    classes = Classes({checkout.module_of(path): checkout.trees[path] for path in checkout.product})
    return {
        "methods on the largest self": classes.largest("jobboard"),
        **{
            f"methods on the largest self of {name}": classes.largest(f"jobboard.backends.{name}")
            for name in checkout.backends()
        },
    }


def mentions(checkout: Checkout) -> Figures:
    figures = {}
    for field in _FIELDS:
        word = re.compile(rf"\b{field}\b")
        python, lua = (
            sum(word.search(checkout.texts[path]) is not None for path in paths)
            for paths in (checkout.product, checkout.lua)
        )
        figures[f"files that name {field}"] = [python + lua, f"{python} Python, {lua} Lua"]
    return figures


def rooms(checkout: Checkout) -> Figures:
    below = [path for path in checkout.python if path.is_relative_to(checkout.package)]
    room_of = {path: path.relative_to(checkout.package).parts[0].removesuffix(".py") for path in below}
    rooms = set(room_of.values())
    imports = {
        (room, _room_of(name, rooms)) for path, room in room_of.items() for name in _imported(checkout.trees[path])
    }
    arrows = {(room, other) for room, other in imports if other not in {room, None}}
    return {"rooms of the top level": len(rooms), "arrows between them": len(arrows)}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _room_of(name: str, rooms: set[str]) -> str | None:
    first, _, rest = name.partition(".")
    if first != "jobboard":
        return None
    room = rest.partition(".")[0]
    return room if room in rooms else "__init__"


@contextmanager
def _installed(checkout: Checkout) -> Iterator[Path]:
    """Copy the package, with its scripts and its entry points, to a folder that can stand on the path before others."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(checkout.folder / "setup.cfg")
    with tempfile.TemporaryDirectory(prefix="jobboard-house-") as name:
        folder = Path(name)
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(checkout.package, folder / "jobboard", ignore=skipped)
        shutil.copytree(checkout.folder / "lua", folder / "jobboard" / "lua", ignore=skipped)
        known = folder / "jobboard-0.dist-info"
        known.mkdir()
        (known / "METADATA").write_text("Metadata-Version: 2.1\nName: jobboard\nVersion: 0\n")
        groups = settings["options.entry_points"].items()
        (known / "entry_points.txt").write_text("".join(f"[{group}]\n{lines.strip()}\n" for group, lines in groups))
        yield folder


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder)}


def _traced(folder: Path) -> Figures:
    """Run one post, one claim and one consume on a Redis server of its own."""
    from servers.redis_servers import RedisServer

    script = str(Path(__file__).with_name("house_trace.py"))
    with RedisServer() as server:
        command = [sys.executable, "-P", script, str(folder / "jobboard"), server.uri]
        told = subprocess.run(
            command, env=_environment(folder), capture_output=True, text=True, check=False, timeout=120
        )
    if told.returncode:
        raise SystemExit(told.stderr)
    figures: Figures = {}
    for step, found in json.loads(told.stdout).items():
        python, lua = len(found["files"]), len(found["lua"])
        figures[f"files that one {step} on Redis runs"] = [python + lua, f"{python} Python, {lua} Lua"]
        figures[f"functions that one {step} on Redis runs"] = found["functions"]
    return figures


COMMANDS = {
    "an empty interpreter": ["-c", "pass"],
    "import jobboard": ["-c", "import jobboard"],
    "jobboard --help": ["-m", "jobboard", "--help"],
}


def _cpu(folders: list[Path]) -> list[Figures]:
    """Measure each command in each folder in turn, since the machine's speed drifts, after one turn that compiles."""
    spent: dict[tuple[Path, str], list[float]] = {(folder, name): [] for folder in folders for name in COMMANDS}
    for _ in range(_RUNS + 1):
        for folder, name in spent:
            spent[folder, name].append(cpu_of(COMMANDS[name], folder))
    figures = []
    for folder in folders:
        medians = {name: 1000 * statistics.median(spent[folder, name][1:]) for name in COMMANDS}
        empty = medians.pop("an empty interpreter")
        figure: Figures = {
            f"CPU of {name}, ms above an empty interpreter": round(value - empty, 1) for name, value in medians.items()
        }
        figure["CPU of an empty interpreter, ms"] = round(empty, 1)
        figures.append(figure | {f"{name} imports SQLAlchemy": _imports_sqlalchemy(name, folder) for name in medians})
    return figures


def cpu_of(arguments: list[str], folder: Path) -> float:
    """Return the seconds of CPU of an interpreter that imports from this folder first."""
    command = [sys.executable, "-P", *arguments]
    child = subprocess.Popen(command, env=_environment(folder), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime


def _imports_sqlalchemy(name: str, folder: Path) -> str:
    command = [sys.executable, "-P", "-X", "importtime", *COMMANDS[name]]
    told = subprocess.run(command, env=_environment(folder), capture_output=True, text=True, check=True).stderr
    return "yes" if re.search(r"\| +sqlalchemy$", told, re.MULTILINE) else "no"


def measure(folders: list[Path]) -> list[Figures]:
    """Return all figures of each of these checkouts."""
    checkouts = [Checkout(folder) for folder in folders]
    figures = [{"commit": _commit_of(checkout.folder), **read(checkout)} for checkout in checkouts]
    with ExitStack() as stack:
        installed = [stack.enter_context(_installed(checkout)) for checkout in checkouts]
        runs = [_traced(folder) | cpu for folder, cpu in zip(installed, _cpu(installed), strict=True)]
    return [read | run for read, run in zip(figures, runs, strict=True)]


def _commit_of(folder: Path) -> str:
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "none"


def print_table(columns: list[Figures]) -> None:
    """Print a line per figure; what only one column has stays empty in the others."""
    names = list(dict.fromkeys(name for figures in columns for name in figures))
    rows = [[name, *(_cell(figures.get(name, "")) for figures in columns)] for name in names]
    print_rows(rows)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_cell(part) for part in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks house", description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=_ROOT, help="a checkout; the one of this file by default"
    )
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout, for a second column")
    parser.add_argument("--json", action="store_true", help="print a list with one object per checkout")
    given = parser.parse_args(words)
    columns = measure([given.folder, given.against] if given.against else [given.folder])
    if given.json:
        print(json.dumps(columns, indent=1))
    else:
        print_table(columns)
