"""The ZooKeeper backend."""

from __future__ import annotations

from jobboard.backends.base import Capabilities
from jobboard.backends.zookeeper.auditing import Auditing
from jobboard.backends.zookeeper.drawing import Drawing
from jobboard.backends.zookeeper.options import OPTIONS
from jobboard.backends.zookeeper.participants import Participants
from jobboard.backends.zookeeper.reading import Reading
from jobboard.backends.zookeeper.scheduling import Scheduling
from jobboard.backends.zookeeper.watching import Watching


class ZooKeeperBackend(Scheduling, Drawing, Reading, Participants, Watching, Auditing):
    """``zookeeper://HOST:PORT,HOST:PORT/ROOT``; ``client=`` takes a kazoo client that is started already.

    Every mutation is one transaction. A claim ends with its client's session, or at its expiry if that is sooner.
    """

    scheme = "zookeeper"
    #: More would not fit the 1 MB that a transaction can have, if all names and keys are as long as may be.
    capabilities = Capabilities(processes=True, durable=True, expiry="time", clock="store", largest_batch=200)
    options = OPTIONS
