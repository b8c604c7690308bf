"""The promises of every backend, as cases; :class:`Contract` is all of them."""

from __future__ import annotations

from typing import ClassVar

from jobboard.testing.contract.arguments import ArgumentCases
from jobboard.testing.contract.attempts import AttemptCases
from jobboard.testing.contract.audits import AuditRaceCases
from jobboard.testing.contract.batches import BatchCases
from jobboard.testing.contract.books import BookCases
from jobboard.testing.contract.claiming import ClaimingCases
from jobboard.testing.contract.corruption import CorruptionCases
from jobboard.testing.contract.delays import DelayCases
from jobboard.testing.contract.ends import (
    AbandonCases,
    CheckpointCases,
    ConsumeCases,
    ExtendCases,
    TrashCases,
)
from jobboard.testing.contract.entities import EntityCases
from jobboard.testing.contract.events import EventCases
from jobboard.testing.contract.expiry import ExpiryCases
from jobboard.testing.contract.fences import FenceCases
from jobboard.testing.contract.firing import FiringCases
from jobboard.testing.contract.iterating import IteratingCases
from jobboard.testing.contract.keys import KeyCases
from jobboard.testing.contract.lifecycle import LifecycleCases, NamespaceCases
from jobboard.testing.contract.newer import NewerCases
from jobboard.testing.contract.operators import (
    AuditCases,
    CancelCases,
    PauseCases,
    ReleaseCases,
    TrashBinCases,
)
from jobboard.testing.contract.ordering import OrderingCases
from jobboard.testing.contract.outages import MeanwhileCases, OutageCases
from jobboard.testing.contract.poison import PoisonCases
from jobboard.testing.contract.posting import PostingCases
from jobboard.testing.contract.processes import ProcessCases
from jobboard.testing.contract.races import RaceCases
from jobboard.testing.contract.records import RecordCases
from jobboard.testing.contract.retries import RetryCases
from jobboard.testing.contract.schedules import ScheduleCases
from jobboard.testing.contract.waiting import WaitingCases

#: How many cases the contract has, every set of parameters counted.
CONTRACT_CASES = 909

#: How many of them a further deployment of the same store runs.
DEPLOYMENT_CASES = 158


class Counted:
    """A suite whose cases are counted, so that none can vanish unseen."""

    #: How many cases the suite has.
    all_cases: ClassVar[int]
    #: How many of them the backend runs; the others need what its capabilities say it does not have.
    executed_cases: ClassVar[int]


class Contract(
    PostingCases, KeyCases, BatchCases, ClaimingCases, OrderingCases, FenceCases, ConsumeCases, AbandonCases,
    TrashCases, ExtendCases, CheckpointCases, ExpiryCases, DelayCases, AttemptCases, WaitingCases, EventCases,
    IteratingCases, RecordCases, ReleaseCases, TrashBinCases, CancelCases, PauseCases, AuditCases, BookCases,
    EntityCases, RetryCases, MeanwhileCases, OutageCases, CorruptionCases, RaceCases, AuditRaceCases, ProcessCases,
    LifecycleCases, NamespaceCases, ArgumentCases, ScheduleCases, FiringCases, PoisonCases,
    NewerCases, Counted,
):  # fmt: skip
    """All that a backend must do; derive a class ``Test...`` of it beside a fixture ``harness``."""

    all_cases = CONTRACT_CASES


class DeploymentContract(
    ClaimingCases, ExpiryCases, WaitingCases, EventCases, RetryCases, OutageCases, RaceCases, Counted
):
    """What another deployment of a store can change: where requests go, who answers, when, and who is woken.

    For a cluster or an ensemble, beside a whole :class:`Contract` for the single server: what is left out is decided
    by code that is the same for both. Every mutation is in :class:`RetryCases`.
    """

    all_cases = DEPLOYMENT_CASES
