"""The pages on web frameworks highlight every line that the board needs, and there are few."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOC = Path(__file__).parent.parent / "doc" / "guides"

_INCLUDED = re.compile(r"literalinclude:: (\S+)\n   :emphasize-lines: (.+)")


@pytest.mark.parametrize(("page", "most"), [("fastapi.rst", 6), ("flask.rst", 4)])
def test_all_glue_is_highlighted(page: str, most: int) -> None:
    included = _INCLUDED.findall((DOC / page).read_text())
    assert included
    glue = 0
    for file, numbers in included:
        shown = {int(number) for number in numbers.split(",")}
        assert shown == set(glue_of((DOC / file).read_text().splitlines()))
        glue += len(shown)
    assert glue <= most


def glue_of(lines: list[str]) -> list[int]:
    """Return the numbers of the lines that name the board, outside of docstrings, endpoints and handlers.

    An endpoint or a handler begins with its decorator, and ends with its last indented line.
    """
    found, inside = [], False
    for number, line in enumerate(lines, 1):
        if line and not line.startswith((" ", "def ", "async def ")):
            inside = line.startswith(("@app.get", "@app.post", "@app.put", "@app.route", "@handlers."))
        if not inside and re.search(r"board|handlers", line) and not line.startswith('"""'):
            found.append(number)
    return found
