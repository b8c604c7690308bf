"""Every kind of server is held to the rules of a job's life."""

from __future__ import annotations

from typing import Any

import pytest
from harnesses.every_server import on_every_server

from jobboard.testing.differential import check_lifecycle

pytestmark = pytest.mark.in_turn(1)


@pytest.mark.timeout(600)
@on_every_server
def test_a_server_follows_the_lifecycle(server_class: Any, harness_class: Any) -> None:
    with server_class() as server, harness_class(server.uri) as harness:
        check_lifecycle(harness, 4)
