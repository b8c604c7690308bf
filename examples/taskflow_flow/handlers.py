"""The same flow as a handler: ``jobboard conductor taskflow_flow.handlers:handlers``."""

from __future__ import annotations

from jobboard import Handlers
from jobboard.taskflow import flow_handler
from taskflow_flow.flows import order_flow

handlers = Handlers()
handlers.add("order", flow_handler(order_flow))
