"""``python -m taskflow_flow.poster ORDER...`` posts a flow for each order."""

from __future__ import annotations

import sys

from oslo_utils import uuidutils
from taskflow import engines
from taskflow.persistence import models

from taskflow_flow.flows import order_flow
from taskflow_flow.site import open_site

if __name__ == "__main__":
    persistence, board = open_site()
    for order in map(int, sys.argv[1:]):
        book = models.LogBook(f"order {order}")
        flow = models.FlowDetail("order", uuidutils.generate_uuid())
        book.add(flow)
        persistence.get_connection().save_logbook(book)
        engines.save_factory_details(flow, order_flow, [], {}, backend=persistence)
        board.post("order", book=book, details={"flow_uuid": flow.uuid, "store": {"order": order}})
    board.close()
    persistence.close()
