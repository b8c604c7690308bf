"""The stores whose goals are about the commit before."""

from __future__ import annotations

from benchmarks.goals.goal import BEFORE, Goal, Part
from benchmarks.goals.sides import scripts

_BESIDE = {BEFORE: 1.0}

MARIADB = (
    Part(
        "pairs",
        (
            Goal("claim and consume in 100s", "/s", "ratio >= 1.3", BEFORE),
            Goal("claim and consume one by one", "/s", "ratio >= 1.3", BEFORE),
        ),
        scripts("mariadb", "mysql", 3000, 0, _BESIDE),
    ),
)
_PICK_UP = (Goal("pick-up p50", "ms", "ratio <= 0.75", BEFORE),)
ZOOKEEPER = (Part("pickup", _PICK_UP, scripts("zookeeper", "zookeeper", 0, 60, _BESIDE)),)
ETCD = (Part("pickup", _PICK_UP, scripts("etcd", "etcd", 0, 60, _BESIDE)),)
