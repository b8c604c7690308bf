"""Random histories on every kind of server, compared with a model."""

from __future__ import annotations

from typing import Any

import pytest
from harnesses.every_server import on_every_server
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from jobboard.testing import Harness
from jobboard.testing.machine import BoardMachine

SETTINGS = settings(max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))

pytestmark = pytest.mark.in_turn(1)


@pytest.mark.timeout(400)
@on_every_server
def test_a_server_does_what_the_model_does(server_class: Any, harness_class: Any) -> None:
    with server_class() as server:

        class Machine(BoardMachine):
            """Each history has a board of its own on the server."""

            def open_harness(self) -> Harness:
                harness: Harness = harness_class(server.uri)
                return harness

        run_state_machine_as_test(Machine, settings=SETTINGS)
