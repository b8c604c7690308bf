"""The etcd backend."""

from __future__ import annotations

from jobboard.backends.base import Capabilities
from jobboard.backends.etcd.auditing import Auditing
from jobboard.backends.etcd.ending import Ending
from jobboard.backends.etcd.operating import Operating
from jobboard.backends.etcd.options import OPTIONS
from jobboard.backends.etcd.posting import MOST_POSTINGS
from jobboard.backends.etcd.reading import Reading
from jobboard.backends.etcd.scheduling import Scheduling
from jobboard.backends.etcd.watching import Watching


class EtcdBackend(Scheduling, Ending, Reading, Operating, Auditing, Watching):
    """``etcd://HOST:PORT,HOST:PORT/PREFIX``, and ``etcds://`` with TLS, through the server's JSON gateway.

    Every change is one transaction that compares what was read. Claims are under leases; moments are judged by the
    server's clock, which every reply tells.
    """

    scheme = "etcd"
    capabilities = Capabilities(
        processes=True,
        durable=True,
        expiry="time",
        clock="store",
        largest_batch=MOST_POSTINGS,
        largest_step=50,
    )
    options = OPTIONS
