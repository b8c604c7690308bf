"""Which cases a further deployment of a store runs: those that a deployment can change, or all on request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or not os.environ.get("JOBBOARD_ALL_TESTS"):
    from jobboard.testing import DeploymentContract as FurtherContract
    from jobboard.testing.contract import Counted
    from jobboard.testing.contract.events import EventCases
    from jobboard.testing.contract.outages import OutageCases
    from jobboard.testing.contract.retries import RetryCases
    from jobboard.testing.contract.waiting import WaitingCases
    from jobboard.testing.counting import count_cases

    class OtherWayContract(EventCases, OutageCases, RetryCases, WaitingCases, Counted):
        """For another way to the same single server: what is sent and received, and what a lost line does to it."""

    OtherWayContract.all_cases = count_cases(OtherWayContract)
else:
    from jobboard.testing import Contract as FurtherContract

    OtherWayContract = FurtherContract

__all__ = ["FurtherContract", "OtherWayContract"]
