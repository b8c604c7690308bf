"""The contract suite: what every backend must do, as pytest classes over a harness; for third-party backends too.

A backend's whole test module::

    import pytest
    from jobboard.testing import Contract, Harness
    from mystore import MyBackend, scratch_server

    class MyHarness(Harness):
        backend_class = MyBackend

        def uri(self) -> str:
            return "mystore://localhost:4000"

        def corrupt(self, board, uuid):
            scratch_server.overwrite(board.name, uuid, b"\\xc1 no posting")

    @pytest.fixture
    def harness():
        with MyHarness() as harness:
            yield harness

    class TestMyStore(Contract):
        executed_cases = 700  # of CONTRACT_CASES; the others need what the store does not have

and ``pytest_plugins = ["jobboard.testing.counting"]`` in the top ``conftest.py``, which holds ``executed_cases``
against what really ran. A further deployment of the same store, such as a cluster, may run :class:`DeploymentContract`.
:class:`jobboard.testing.machine.BoardMachine` compares a backend with a model by random
histories.

Needs the extra ``jobboard[testing]``.
"""

import pytest

pytest.register_assert_rewrite("jobboard.testing.contract", "jobboard.testing.machine", "jobboard.testing.deadline")

from jobboard.testing.contract import CONTRACT_CASES, DEPLOYMENT_CASES, Contract, DeploymentContract
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend
from jobboard.testing.harness import Harness

__all__ = [
    "CONTRACT_CASES",
    "DEPLOYMENT_CASES",
    "Contract",
    "DeploymentContract",
    "Harness",
    "LossyBackend",
    "eventually",
]
