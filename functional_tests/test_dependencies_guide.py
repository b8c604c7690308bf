"""The examples of the guide about dependencies run as they stand there, on the stores that most teams have."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.durable_stores import running

from jobboard import backend

GUIDE = Path(__file__).parent.parent / "doc" / "guides" / "dependencies.rst"
_BLOCK = re.compile(r"^\.\. code-block:: python\n((?:[ \t]*\n|[ \t]+.*\n)+)", re.MULTILINE)
EXAMPLES = [textwrap.dedent(block) for block in _BLOCK.findall(GUIDE.read_text(encoding="utf-8"))]
URI = '"sqlite:///jobs.db"'


@pytest.fixture(scope="module", params=["redis", "postgresql", "sqlite"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as store:
        with backend("guide", store.uri) as board:
            if not board.capabilities.edges:
                pytest.skip("this store has no dependencies")
        yield store.uri


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs_with_nothing_changed_but_the_uri(uri: str, number: int) -> None:
    code = EXAMPLES[number]
    assert code.count(URI) == 1
    exec(compile(code.replace(URI, repr(uri)), f"{GUIDE.name}-{number + 1}", "exec", dont_inherit=True), {})


def test_there_are_an_order_and_a_fan_out_among_them() -> None:
    assert len(EXAMPLES) == 3
