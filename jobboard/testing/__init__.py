"""For tests: a kit for users of a board, and the contract suite for those who write a backend.

The kit needs no pytest: :func:`memory_board` with a :class:`Clock` that tests move, :func:`posted`, :func:`refuse`,
:func:`run_due`, :func:`fire_due` and :func:`inline`. :mod:`jobboard.testing.plugin` makes fixtures of them.

The contract suite is what every backend must do, as pytest classes over a harness; for third-party backends too.
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
histories. The contract suite needs the extra ``jobboard[testing]``.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobboard.testing.clock import Clock, clock_of
    from jobboard.testing.contract import CONTRACT_CASES, DEPLOYMENT_CASES, Contract, DeploymentContract
    from jobboard.testing.deadline import eventually
    from jobboard.testing.due import fire_due, inline, run_due
    from jobboard.testing.faults import LossyBackend
    from jobboard.testing.harness import Harness
    from jobboard.testing.kit import all_posted, memory_board, posted, refuse

__all__ = [
    "CONTRACT_CASES",
    "DEPLOYMENT_CASES",
    "Clock",
    "Contract",
    "DeploymentContract",
    "Harness",
    "LossyBackend",
    "all_posted",
    "clock_of",
    "eventually",
    "fire_due",
    "inline",
    "memory_board",
    "posted",
    "refuse",
    "run_due",
]

# pytest imports its plug-ins in every run: the module of a name is imported when the name is first used.
_NAMES = {
    "clock": "Clock clock_of",
    "contract": "CONTRACT_CASES DEPLOYMENT_CASES Contract DeploymentContract",
    "deadline": "eventually",
    "due": "fire_due inline run_due",
    "faults": "LossyBackend",
    "harness": "Harness",
    "kit": "all_posted memory_board posted refuse",
}
_MODULES = {name: f"jobboard.testing.{module}" for module, names in _NAMES.items() for name in names.split()}

if sys.modules.get("pytest"):
    sys.modules["pytest"].register_assert_rewrite(
        "jobboard.testing.contract", "jobboard.testing.machine", "jobboard.testing.deadline"
    )

if not TYPE_CHECKING:  # to type checkers it would say that every name exists

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            found = globals()[name] = getattr(import_module(_MODULES[name]), name)
        except ModuleNotFoundError as error:
            if error.name not in ("pytest", "hypothesis"):
                raise
            from jobboard.errors import MissingExtra

            text = f"the contract suite needs the Python package {error.name!r}: pip install 'jobboard[testing]'"
            raise MissingExtra(text) from None
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
