"""The promises of every backend, as cases; :class:`Contract` is all of them."""

from __future__ import annotations

from typing import ClassVar

from jobboard.testing.contract.all_schedules import AllSchedulesCases
from jobboard.testing.contract.applied_schedules import AppliedScheduleCases
from jobboard.testing.contract.arguments import ArgumentCases
from jobboard.testing.contract.attempts import AttemptCases
from jobboard.testing.contract.audits import AuditRaceCases
from jobboard.testing.contract.batches import BatchCases
from jobboard.testing.contract.books import BookCases
from jobboard.testing.contract.claiming import ClaimingCases
from jobboard.testing.contract.corruption import CorruptionCases
from jobboard.testing.contract.delays import DelayCases
from jobboard.testing.contract.edge_races import EdgeRaceCases
from jobboard.testing.contract.edge_retries import EdgeRetryCases
from jobboard.testing.contract.edges import EdgeCases
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
from jobboard.testing.contract.failed_parents import FailedParentCases
from jobboard.testing.contract.fences import FenceCases
from jobboard.testing.contract.fired_by_hand import FiredByHandCases
from jobboard.testing.contract.firing import FiringCases
from jobboard.testing.contract.follow_ups import DeclaredFollowUpCases, FollowUpCases
from jobboard.testing.contract.graphs import GraphCases
from jobboard.testing.contract.iterating import IteratingCases
from jobboard.testing.contract.keeping import KeepingCases
from jobboard.testing.contract.keys import KeyCases
from jobboard.testing.contract.lane_pauses import LanePauseCases
from jobboard.testing.contract.lane_races import LaneRaceCases
from jobboard.testing.contract.lanes import LaneCases
from jobboard.testing.contract.lifecycle import LifecycleCases, NamespaceCases
from jobboard.testing.contract.limit_rules import LimitRuleCases
from jobboard.testing.contract.limits import LimitCases
from jobboard.testing.contract.linking import LinkCases
from jobboard.testing.contract.moments import KeyWindowCases, MaxDelayCases, StartByCases
from jobboard.testing.contract.name_limits import NameLimitCases
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
from jobboard.testing.contract.owned_books import OwnedBookCases
from jobboard.testing.contract.paused_schedules import PausedScheduleCases
from jobboard.testing.contract.poison import PoisonCases
from jobboard.testing.contract.posting import PostingCases
from jobboard.testing.contract.processes import ProcessCases
from jobboard.testing.contract.races import RaceCases
from jobboard.testing.contract.rates import RateCases
from jobboard.testing.contract.records import RecordCases
from jobboard.testing.contract.refusals import RefusalCases
from jobboard.testing.contract.restored_parents import RestoredParentCases
from jobboard.testing.contract.retries import RetryCases
from jobboard.testing.contract.sampling import SamplingCases
from jobboard.testing.contract.schedule_verbs import ScheduleVerbCases
from jobboard.testing.contract.schedules import ScheduleCases
from jobboard.testing.contract.signals import SignalCases
from jobboard.testing.contract.standing import StandingCases
from jobboard.testing.contract.steps import StepCases
from jobboard.testing.contract.strict_order import StrictOrderCases
from jobboard.testing.contract.unfinished_graphs import UnfinishedGraphCases
from jobboard.testing.contract.verbs import PauseTellingCases, VerbCases
from jobboard.testing.contract.waiting import WaitingCases
from jobboard.testing.contract.waiting_owners import WaitingOwnerCases

#: How many cases the contract has, every set of parameters counted.
CONTRACT_CASES = 1579

#: How many of them show what a board of shards does not hold for all of its jobs together.
WHOLE_BOARD_CASES = 66

#: How many of them another deployment of a tested store runs.
DEPLOYMENT_CASES = 173


class Counted:
    """A suite that says how many cases it has, so that somebody notices if one is missing."""

    #: How many cases the suite has.
    all_cases: ClassVar[int]
    #: How many of them run on the backend; the others need a capability that it does not have.
    executed_cases: ClassVar[int]


class Contract(
    PostingCases, KeyCases, BatchCases, ClaimingCases, OrderingCases, FenceCases, ConsumeCases, AbandonCases,
    TrashCases, ExtendCases, CheckpointCases, ExpiryCases, DelayCases, AttemptCases, WaitingCases, EventCases,
    IteratingCases, RecordCases, ReleaseCases, TrashBinCases, CancelCases, PauseCases, AuditCases, BookCases,
    OwnedBookCases, EntityCases, RetryCases, MeanwhileCases, OutageCases, CorruptionCases, RaceCases, AuditRaceCases,
    ProcessCases, LifecycleCases, NamespaceCases, ArgumentCases, ScheduleCases, AllSchedulesCases,
    PausedScheduleCases, FiredByHandCases, ScheduleVerbCases, AppliedScheduleCases, FiringCases, PoisonCases,
    NewerCases, SamplingCases, KeepingCases, RefusalCases, VerbCases, PauseTellingCases, LaneCases, LimitCases,
    LanePauseCases, LimitRuleCases, NameLimitCases, StrictOrderCases, RateCases, LaneRaceCases,
    EdgeCases, FailedParentCases, RestoredParentCases, LinkCases, StepCases, SignalCases, FollowUpCases,
    DeclaredFollowUpCases, KeyWindowCases, MaxDelayCases, StartByCases, EdgeRetryCases, GraphCases,
    EdgeRaceCases, StandingCases, UnfinishedGraphCases, WaitingOwnerCases, Counted,
):  # fmt: skip
    """All that a backend must do. Derive a class ``Test...`` from it, in a module that has a fixture ``harness``."""

    all_cases = CONTRACT_CASES


class DeploymentContract(
    ClaimingCases, ExpiryCases, WaitingCases, EventCases, RetryCases, OutageCases, RaceCases, Counted
):
    """The cases that depend on the deployment of a store: where requests go, who answers, when, and who is woken.

    For a cluster or an ensemble, in addition to a whole :class:`Contract` for the single server: the other cases
    depend only on code that both share. :class:`RetryCases` has every call that changes something.
    """

    all_cases = DEPLOYMENT_CASES
