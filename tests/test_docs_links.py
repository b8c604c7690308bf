"""Every file of the project that a page, a message or a comment names is there, and every page can be reached."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_FOLDERS = r"doc|examples|tests|functional_tests|benchmarks|jobboard|lua|bin|\.ci"
_NAMED = re.compile(rf"(?<![\w/])((?:{_FOLDERS})/[\w./-]*[\w/])")
_ENTRY = re.compile(r"^   ([a-z-]+(?:/[a-z-]+)?)$", re.MULTILINE)


def pages() -> list[Path]:
    return [
        *sorted(ROOT.glob("*.rst")),
        *sorted((ROOT / "doc").rglob("*.rst")),
        *sorted(ROOT.glob("examples/*/README*")),
    ]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path) -> None:
    named = {path for text in re.findall(r"``([^`]+)``", page.read_text()) for path in _NAMED.findall(text)}
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_what_a_message_or_a_comment_names_is_there() -> None:
    found = subprocess.run(
        ["grep", "-rhoE", r"doc/[a-z/-]+\.rst", "jobboard", "lua", "examples", "setup.cfg"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert {path for path in found.stdout.split() if not (ROOT / path).exists()} == set()


def test_every_page_is_in_the_table_of_contents() -> None:
    doc = ROOT / "doc"
    listed = {"index"}
    for index in doc.rglob("index.rst"):
        tree = re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", index.read_text(), re.MULTILINE)
        folder = index.parent.relative_to(doc)
        listed |= {str(folder / entry) for block in tree for entry in _ENTRY.findall(block)}
    assert {str(page.relative_to(doc).with_suffix("")) for page in doc.rglob("*.rst")} == listed


def test_the_readme_shows_the_same_on_the_page_of_a_registry() -> None:
    """There no relative address leads anywhere. Until setup.cfg has the repository's, it is read in a clone."""
    shown = re.findall(r"^\.\. (?:image|figure):: (.*)$|<([^`>]+)>`_", (ROOT / "README.rst").read_text(), re.MULTILINE)
    relative = [address for found in shown for address in found if address and not address.startswith("https://")]
    if "project_urls" in (ROOT / "setup.cfg").read_text():
        assert relative == []
    assert [address for address in relative if not (ROOT / address).is_file()] == []


def test_the_side_bar_has_four_groups() -> None:
    captions = re.findall(r"^   :caption: (.*)$", (ROOT / "doc/index.rst").read_text(), re.MULTILINE)
    assert captions == ["Learn", "Build", "Operate", "Understand"]
