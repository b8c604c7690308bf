"""Which cases a further deployment of a store runs: those that a deployment can change, or all on request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or not os.environ.get("JOBBOARD_WHOLE_CONTRACT"):
    from jobboard.testing import DeploymentContract as FurtherContract
else:
    from jobboard.testing import Contract as FurtherContract

__all__ = ["FurtherContract"]
