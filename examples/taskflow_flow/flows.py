"""What is done for an order, one step after the other; each tells Redis, as a real one would tell a service."""

from __future__ import annotations

import os
import time
from typing import Any

import redis
from taskflow import task
from taskflow.patterns import linear_flow

#: Seconds.
STEP_TAKES = float(os.environ.get("STEP_TAKES", "1"))


class Step(task.Task):  # type: ignore[misc]
    def execute(self, order: int) -> None:
        with redis.Redis.from_url(os.environ["JOBBOARD_URI"]) as client:
            client.rpush(f"order:{order}", f"{self.name} begun")
            time.sleep(STEP_TAKES)
            client.rpush(f"order:{order}", f"{self.name} done")


def order_flow() -> Any:
    return linear_flow.Flow("order").add(Step("reserve"), Step("charge"), Step("ship"))
