"""The examples in the documentation run as they stand there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from jobboard import telemetry

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.rst", *sorted((ROOT / "doc").rglob("*.rst"))]

_BLOCK = re.compile(r"^\.\. code-block:: python\n((?:[ \t]*\n|[ \t]+.*\n)+)", re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, match in enumerate(_BLOCK.finditer(page.read_text()), start=1):
            found.append((f"{page.relative_to(ROOT)}-{number}", textwrap.dedent(match.group(1))))
    return found


@pytest.mark.parametrize(("name", "code"), examples(), ids=[name for name, _ in examples()])
def test_an_example_runs(name: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile(code, name, "exec", dont_inherit=True), {"__name__": "__main__"})
    finally:
        # An example adds its recorders for good.
        telemetry._set(())


def test_there_are_examples() -> None:
    assert len(examples()) >= 7
