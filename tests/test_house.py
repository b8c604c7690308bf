"""The house rules that a machine can hold."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = [
    path
    for folder in ("jobboard", "lua", "tests", "functional_tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
]


def test_a_file_has_one_role_and_about_400_lines_at_most() -> None:
    assert {str(path.relative_to(ROOT)) for path in SOURCES if len(path.read_text().splitlines()) > 450} == set()


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "util", "common", "helpers", "misc"}
    assert [path for path in SOURCES if drawers & set(path.with_suffix("").parts)] == []


def test_nothing_is_pickled_from_the_wire() -> None:
    """Workers of the process executor get plain data and functions from their own parent by multiprocessing."""
    wire = [path for path in SOURCES if "jobboard/backends" in str(path) or "jobboard/board" in str(path)]
    assert [path for path in wire if "pickle" in path.read_text().replace("never pickle", "")] == []
