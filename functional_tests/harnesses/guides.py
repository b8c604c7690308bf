"""The examples in a page of the documentation."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

_GUIDES = Path(__file__).parent.parent.parent / "doc" / "guides"
_BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n((?:[ \t]*\n|[ \t]+.*\n)+)", re.MULTILINE)


def blocks_of(guide: str) -> list[tuple[str, str]]:
    """Return the language and the text of each block of code, in their order."""
    text = (_GUIDES / f"{guide}.rst").read_text(encoding="utf-8")
    return [(language, textwrap.dedent(block)) for language, block in _BLOCK.findall(text)]
