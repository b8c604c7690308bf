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


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that is made as all others are."""
    folder = tmp_path_factory.mktemp("doc")
    shutil.copy(DOC / "conf.py", folder)
    shutil.copytree(DOC / "_static", folder / "_static")
    (folder / "index.rst").write_text(_PAGE)
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", folder, folder / "built"]
    subprocess.run(build, check=True, timeout=120)
    return folder / "built/index.html"


def test_no_line_of_code_is_cut_at_the_edge_of_its_column(page: Path) -> None:
    with browser() as web:
        web.driver.get(page.as_uri())
        for size in (DESKTOP, PHONE):
            web.resize(size)
            assert web.script(_CUT) == 0, size
            assert web.overflow() == 0, size
