"""The pages of the documentation in a browser: whole lines, on a wide screen and on a phone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harnesses.browser import DESKTOP, PHONE, browser

DOC = Path(__file__).parent.parent / "doc"
_PAGE = """
A page
======

.. code-block:: python

    board.post("remind", {"order": 4711}, key="order/4711/unpaid", delay=wait, if_exists="replace", priority="high")

.. code-block:: shell

    jobboard post remind --key order/4711/unpaid --run-at 2030-01-31T09:00+01:00 --if-exists replace --priority high
"""
_CUT = "return [...document.querySelectorAll('pre')].filter((pre) => pre.scrollWidth > pre.clientWidth).length"


#: Where the first picture of a page and its first code are: (top, bottom) in pixels, and whether the picture is there.
_FIRST = """
const [picture, code] = ["article img", "article .highlight-python"].map((one) => document.querySelector(one));
const place = (one) => [one.getBoundingClientRect().top, one.getBoundingClientRect().bottom];
return [place(picture), place(code), picture.complete && picture.naturalWidth > 0];
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that is made as all others are."""
    return made(tmp_path_factory.mktemp("doc"), _PAGE, "-q", "-W")


def made(folder: Path, text: str, *options: str) -> Path:
    """Make a page of this text, by itself."""
    shutil.copy(DOC / "conf.py", folder)
    shutil.copytree(DOC / "_static", folder / "_static")
    (folder / "index.rst").write_text(text)
    build = [sys.executable, "-m", "sphinx", *options, "-b", "html", folder, folder / "built"]
    subprocess.run(build, check=True, timeout=120)
    return folder / "built/index.html"


def test_no_line_of_code_is_cut_at_the_edge_of_its_column(page: Path) -> None:
    with browser() as web:
        web.driver.get(page.as_uri())
        for size in (DESKTOP, PHONE):
            web.resize(size)
            assert web.script(_CUT) == 0, size
            assert web.overflow() == 0, size


def test_the_first_page_shows_the_recorded_demo_and_code_at_once(tmp_path: Path) -> None:
    """The other pages are missing beside it here, which Sphinx warns of."""
    with browser() as web:
        web.driver.get(made(tmp_path, (DOC / "index.rst").read_text(), "-Q").as_uri())
        for size in (DESKTOP, PHONE):
            for scheme in ("light", "dark"):
                web.resize(size)
                web.prefer(scheme)
                picture, code, is_there = web.script(_FIRST)
                assert is_there
                assert picture[1] <= size[1], (size, picture)
                assert code[0] < size[1], (size, code)
                assert web.overflow() == 0, size
