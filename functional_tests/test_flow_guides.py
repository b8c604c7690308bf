"""The examples of the guides about lanes, dependencies and durable handlers run on the stores that most teams have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.guides import blocks_of
from servers.durable_stores import running

pytestmark = pytest.mark.in_turn(1)

#: How many examples each guide has, and which URI these are written for; other examples of it are of the test kit.
_EXPECTED = {
    "limits": (9, '"sqlite:///jobs.db"'),
    "dependencies": (7, '"sqlite:///jobs.db"'),
    "durable-handlers": (3, '"memory://durable"'),
}


def _examples(guide: str, uri: str) -> list[str]:
    return [block for language, block in blocks_of(guide) if language == "python" and uri in block]


@pytest.fixture(scope="module", params=["redis", "postgresql", "sqlite"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as store:
        yield store.uri


@pytest.mark.parametrize(
    ("guide", "number"), [(guide, number) for guide, (count, _) in _EXPECTED.items() for number in range(count)]
)
def test_an_example_runs_with_nothing_changed_but_the_uri(uri: str, guide: str, number: int) -> None:
    written_for = _EXPECTED[guide][1]
    code = _examples(guide, written_for)[number]
    assert code.count(written_for) == 1
    exec(compile(code.replace(written_for, repr(uri)), f"{guide}-{number + 1}", "exec", dont_inherit=True), {})


@pytest.mark.parametrize("guide", _EXPECTED)
def test_all_examples_of_a_guide_run(guide: str) -> None:
    count, written_for = _EXPECTED[guide]
    assert len(_examples(guide, written_for)) == count
