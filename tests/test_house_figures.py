"""What ``python -m benchmarks house`` counts, on a small package."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FILES = {
    "jobboard/__init__.py": "from jobboard.seam import Seam\n",
    "jobboard/seam.py": """
import typing

class Seam(typing.Protocol):
    def post(self): ...
    def max_attempts(self): ...
""",
    "jobboard/backends/__init__.py": "",
    "jobboard/backends/tin/__init__.py": "from jobboard.backends.tin.parts import Part as Piece\n",
    "jobboard/backends/tin/parts.py": """
import jobboard.seam as seam

class Part(seam.Seam):
    def post(self): ...  # fmt: skip
    @property
    def name(self): ...
""",
    "jobboard/backends/tin/backend.py": """
from typing import Generic

from jobboard.backends import tin
from jobboard.backends.tin import Piece

class One(Piece, Generic[int]):
    async def claim(self): ...

class Two(tin.Piece):
    pass
""",
    "jobboard/testing/case.py": """
from jobboard.backends.tin.backend import One

class Case(One):
    def max_attempts(self): ...
    def another(self): ...
""",
    "lua/__init__.py": "",
    "lua/post.lua": "-- include: max\nlocal max_attempts = 1\n",
    "lua/include/max.lua": "local max_attempts_ = 1\n",
}


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.house")


@pytest.fixture
def checkout(house: Any, tmp_path: Path) -> Any:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return house.Checkout(tmp_path)


def test_files_and_lines_count_with_and_without_testing(house: Any, checkout: Any) -> None:
    figures = house.sizes(checkout)
    assert figures["product files"] == len(FILES) - 1
    assert figures["files with jobboard.testing"] == len(FILES)
    assert figures["lines with jobboard.testing"] == sum(len(text.splitlines()) for text in FILES.values())
    assert figures["lines with jobboard.testing"] - figures["product lines"] == 6
    assert figures["files and lines of tin"] == [3, 1 + 7 + 11]
    assert figures["lines of the longest file"] == [11, "jobboard/backends/tin/backend.py"]


def test_methods_come_from_all_bases_over_imports(house: Any, checkout: Any) -> None:
    figures = house.largest_selves(checkout)
    assert figures["methods on the largest self"] == [4, "One", "of 3 classes"]
    assert figures["methods on the largest self of tin"] == [4, "One", "of 3 classes"]
    classes = house.Classes({checkout.module_of(path): checkout.trees[path] for path in checkout.product})
    assert classes.methods_of("jobboard.backends.tin.backend.Two") == {"post", "max_attempts", "name"}


def test_a_file_names_a_field_by_the_whole_word(house: Any, checkout: Any) -> None:
    figures = house.mentions(checkout)
    assert figures["files that name max_attempts"] == [2, "1 Python, 1 Lua"]
    assert figures["files that name checkpoint"] == [0, "0 Python, 0 Lua"]


def test_rooms_are_modules_of_the_top_level_and_arrows_their_imports(house: Any, checkout: Any) -> None:
    # backends -> seam, __init__ -> seam, testing -> backends
    assert house.rooms(checkout) == {"rooms of the top level": 4, "arrows between them": 3}


@pytest.mark.parametrize(
    ("body", "complexity"),
    [
        ("pass", 1),
        ("return a if b else c", 2),
        ("return a and b and c or d", 4),
        ("return [a for a in b if a if c]", 4),
        ("for a in b:\n  while a:\n   if c: pass\n   elif d: pass", 5),
        ("try: pass\n except A: pass\n except B: pass", 3),
        ("match a:\n  case 1: pass\n  case _: pass", 3),
        ("def inner():\n  if a: pass", 2),
    ],
)
def test_complexity_counts_branches_and_conditions(house: Any, body: str, complexity: int) -> None:
    assert house.decisions(ast.parse(f"def function():\n {body}\n").body[0]) == complexity
