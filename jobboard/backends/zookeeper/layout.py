"""Where a board's znodes are.

::

    ROOT/BOARD/jobs/HH/UUID          a job: its posting and its record; or an alias, the uuid of a replacement
               keys/HH/HASH          which live job has a key
               lanes/HH/HASH         the guard of a limited lane: set by whatever changes who waits for the lane, or
                                     holds a slot of it; there since the first limit
               limits/HH/HASH        a limit, of a name or of lanes; there since the first one
               names/HH/HASH         the guard of a limited name: set by every claim of it
               edges/HH/UUID         how many parents of a job stand how; set by every change of one of its edges
               edges/HH/UUID/PARENT  an edge: how that parent stands, its name, its result
               children/HH/PARENT    of a job or a graph: what the edges to it do not say yet, a mark
               children/HH/PARENT/UUID
               steps/HH/UUID/NUMBER  a step of a job that is done
               signals/HH/UUID/HASH  a signal that was sent to a job
               blobs/HH/ID           what is too long to stand in a job's znode
               log/GENERATION/c-N    what changed, one znode for each transaction, until everybody has seen it
               sessions/ID           an ephemeral for each client: while it is there, its claims hold
               paused                the paused names, and the limits of names; set by every change of a limit
               pauses                who paused them, when and why, as of a version of ``paused``; there since the first
                                     pause
               ready                 set by whatever makes a job claimable; its version counts these changes, and
                                     it shows the last posting, if that was a single small one
               deleted               set by whatever deletes a job or a schedule; its version counts these changes
               entities/KIND:NAME
               books/HH/UUID  a logbook; those of earlier versions stand beside the HH
               entries/HH/UUID.GENERATION/HASH
               schedules/HH/ID
               layout                the number of this layout

``HH`` spreads the children over several znodes, so that the names of each one's children fit a packet.
"""

from __future__ import annotations

import hashlib
import zlib
from urllib.parse import quote

from jobboard.backends.kv.codec import pack

#: How many znodes share the jobs of a board; a list of 20,000 uuids is 800 KB.
_SPREAD = 64


def quoted(text: str) -> str:
    """Return a text as one part of a path."""
    part = quote(text, safe=" ")
    return "%2E" + part[1:] if part.startswith(".") else part


def _bucket(text: str) -> str:
    return f"{zlib.crc32(text.encode()) % _SPREAD:02x}"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Layout:
    """The paths of one board."""

    def __init__(self, root: str, board: str) -> None:
        self.board = board
        self.home, self.root = root, f"{root}/{quoted(board)}"
        self.jobs = f"{self.root}/jobs"
        self.keys = f"{self.root}/keys"
        self.lanes = f"{self.root}/lanes"
        self.limits = f"{self.root}/limits"
        self.names = f"{self.root}/names"
        self.edges = f"{self.root}/edges"
        self.children = f"{self.root}/children"
        self.steps = f"{self.root}/steps"
        self.signals = f"{self.root}/signals"
        self.blobs = f"{self.root}/blobs"
        self.logs = f"{self.root}/log"
        self.sessions = f"{self.root}/sessions"
        self.paused = f"{self.root}/paused"
        self.pauses = f"{self.root}/pauses"
        self.ready = f"{self.root}/ready"
        self.deleted = f"{self.root}/deleted"
        self.entities = f"{self.root}/entities"
        self.books = f"{self.root}/books"
        self.entries = f"{self.root}/entries"
        self.schedules = f"{self.root}/schedules"
        self.number = f"{self.root}/layout"

    @property
    def fixed(self) -> list[str]:
        """What every board has, parents first."""
        kinds = [self.jobs, self.keys, self.blobs, self.logs, self.log(0), self.sessions, self.paused, self.ready]
        return [*kinds, self.deleted, self.entities, self.books, self.entries, self.schedules, self.number]

    @property
    def spread(self) -> int:
        """In how many buckets the children of a kind are spread."""
        return _SPREAD

    @property
    def book_buckets(self) -> list[str]:
        return self.buckets_of(self.books)

    @property
    def entry_buckets(self) -> list[str]:
        return self.buckets_of(self.entries)

    @property
    def buckets(self) -> list[str]:
        """What the jobs' znodes stand in."""
        return self.buckets_of(self.jobs)

    def buckets_of(self, kind: str) -> list[str]:
        """What the znodes of a kind stand in."""
        return [f"{kind}/{number:02x}" for number in range(_SPREAD)]

    def job(self, uuid: str) -> str:
        return f"{self.jobs}/{_bucket(uuid)}/{uuid}"

    def key(self, name: str, key: str) -> str:
        digest = _digest(pack([name, key]))
        return f"{self.keys}/{_bucket(digest)}/{digest}"

    def lane(self, lane: str) -> str:
        digest = _digest(lane.encode())
        return f"{self.lanes}/{_bucket(digest)}/{digest}"

    def limit(self, scope: str, pattern: str) -> str:
        digest = _digest(pack([scope, pattern]))
        return f"{self.limits}/{_bucket(digest)}/{digest}"

    def name(self, name: str) -> str:
        digest = _digest(name.encode())
        return f"{self.names}/{_bucket(digest)}/{digest}"

    def edges_of(self, child: str) -> str:
        return f"{self.edges}/{_bucket(child)}/{child}"

    def edge(self, child: str, parent: str) -> str:
        return f"{self.edges_of(child)}/{parent}"

    def children_of(self, parent: str) -> str:
        return f"{self.children}/{_bucket(parent)}/{parent}"

    def child(self, parent: str, child: str) -> str:
        return f"{self.children_of(parent)}/{child}"

    def steps_of(self, uuid: str) -> str:
        return f"{self.steps}/{_bucket(uuid)}/{uuid}"

    def step(self, uuid: str, number: int) -> str:
        return f"{self.steps_of(uuid)}/{number:06d}"

    def signals_of(self, uuid: str) -> str:
        return f"{self.signals}/{_bucket(uuid)}/{uuid}"

    def signal(self, uuid: str, name: str) -> str:
        return f"{self.signals_of(uuid)}/{_digest(name.encode())}"

    def blob(self, id: str) -> str:
        return f"{self.blobs}/{_bucket(id)}/{id}"

    def log(self, generation: int) -> str:
        return f"{self.logs}/{generation}"

    def session(self, id: str) -> str:
        return f"{self.sessions}/{id}"

    def entity(self, kind: str, name: str) -> str:
        return f"{self.entities}/{quoted(kind)}:{quoted(name)}"

    def book(self, uuid: str) -> str:
        return f"{self.books}/{_bucket(uuid)}/{uuid}"

    def old_book(self, uuid: str) -> str:
        """Where earlier versions kept it."""
        return f"{self.books}/{uuid}"

    def entries_of(self, uuid: str, generation: str) -> str:
        return f"{self.entries}/{_bucket(uuid)}/{uuid}.{generation}"

    def entry(self, uuid: str, generation: str, name: str) -> str:
        return f"{self.entries_of(uuid, generation)}/{_digest(name.encode())}"

    def schedule(self, id: str) -> str:
        return f"{self.schedules}/{_bucket(id)}/{quoted(id)}"


def parent(path: str) -> str:
    return path.rpartition("/")[0]


def last_part(path: str) -> str:
    return path.rpartition("/")[2]


def last_two(path: str) -> tuple[str, str]:
    """Return the names of the znode that a path's own stands in, and of that."""
    _, folder, name = path.rsplit("/", 2)
    return folder, name


def change_name(number: int) -> str:
    """Return the name that the server gives to the sequential znode of this number."""
    return f"c-{number:010d}"
