"""TaskFlow's persistence in the logbooks of a board: ``taskflow.persistence.backends.fetch`` with ``jobboard``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taskflow import exceptions as taskflow_errors
from taskflow.persistence import base

from jobboard.backends.options import truth
from jobboard.fetching import fetch
from jobboard.job import Job
from jobboard.taskflow.configuration import configured, naming_keys
from jobboard.taskflow.errors import storing
from jobboard.taskflow.holds import HOLDS
from jobboard.taskflow.shelf import Shelf
from jobboard.taskflow.stored_book import StoredBook


class ShelfBackend(base.Backend):  # type: ignore[misc]
    """Hands out connections to the logbooks of a board."""

    def __init__(self, conf: Mapping[str, Any], shelf: Shelf) -> None:
        super().__init__(conf)
        self._shelf = shelf

    def get_connection(self) -> LogBookConnection:
        """Return a connection; they share that of the board, which is opened if it is not."""
        with storing():
            self._shelf.board.connect()
        return LogBookConnection(self, self._shelf)

    def close(self) -> None:
        """Do nothing: its opener closes the board."""


class LogBookBackend(ShelfBackend):
    """Keeps TaskFlow's logbooks in those of a board, each flow and atom detail as an entry of its own.

    While this process has claimed the job that a flow belongs to, through a :class:`TaskFlowBoard` with the same
    ``uri`` and ``namespace``, each save takes place only if the claim holds in the same moment. An engine that comes
    late gets :class:`~jobboard.taskflow.LateEngine` at its next change, and its conductor consumes nothing.

    :param conf: as for :class:`TaskFlowBoard`, with ``connection`` instead of ``board``. With ``keep_logbooks: false``
        a logbook goes with the record of the first job that runs by it.
    :raises ValueError: the configuration names no store, or has a bad value.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        wanted = configured(conf, "connection")
        keeps = truth(wanted.options.pop("keep_logbooks", True))
        self._place = wanted.place
        with naming_keys(wanted):
            self.board = fetch(wanted.name, wanted.uri, **wanted.options)
        super().__init__(conf, Shelf(self.board, self._hold_on, owned=not keeps))

    def close(self) -> None:
        self.board.close()

    def _hold_on(self, uuids: Sequence[str]) -> Job | None:
        found = HOLDS.of(*uuids)
        if found is None:
            return None
        place, job = found
        if place != self._place:
            raise taskflow_errors.StorageFailure(
                f"logbook {uuids[-1]} belongs to a job on another board, whose claim can't fence it here; give the"
                " persistence the same uri and namespace as the board"
            )
        return job


class LogBookConnection(base.Connection):  # type: ignore[misc]
    """What TaskFlow asks of its persistence."""

    def __init__(self, backend: ShelfBackend, shelf: Shelf) -> None:
        self._backend = backend
        self._shelf = shelf

    @property
    def backend(self) -> ShelfBackend:
        return self._backend

    def close(self) -> None:
        """Nothing to do: the connection is the backend's."""

    def upgrade(self) -> None:
        """Nothing to do: the board has its schema since it was connected."""

    def validate(self) -> None:
        with storing():
            self._shelf.board.stats()

    def clear_all(self) -> None:
        """Destroy all of TaskFlow's logbooks, and no others."""
        for stored in list(self._shelf.all()):
            self._shelf.destroy(stored.uuid)

    def get_logbooks(self, lazy: bool = False) -> Iterator[Any]:
        return (stored.book(lazy) for stored in self._shelf.all())

    def get_logbook(self, book_uuid: str, lazy: bool = False) -> Any:
        return self._shelf.load(book_uuid).book(lazy)

    def get_flows_for_book(self, book_uuid: str, lazy: bool = False) -> Iterator[Any]:
        return self._shelf.load(book_uuid).flows(lazy)

    def get_flow_details(self, fd_uuid: str, lazy: bool = False) -> Any:
        return self._shelf.holder(fd_uuid).flow(fd_uuid, lazy)

    def get_atoms_for_flow(self, fd_uuid: str) -> Iterator[Any]:
        return self._shelf.holder(fd_uuid).atoms(fd_uuid)

    def get_atom_details(self, ad_uuid: str) -> Any:
        return self._shelf.holder(ad_uuid).atom(ad_uuid)

    def save_logbook(self, book: Any) -> Any:
        self._shelf.change(book.uuid, lambda stored: stored.put_book(book))
        return book

    def update_flow_details(self, flow_detail: Any) -> Any:
        uuid = str(flow_detail.uuid)
        return self._shelf.change(self._shelf.book_of(uuid), lambda stored: stored.put_flow(flow_detail), uuid)

    def update_atom_details(self, atom_detail: Any) -> Any:
        uuid = str(atom_detail.uuid)

        def put(stored: StoredBook) -> Any:
            return stored.put_atom(atom_detail, stored.flow_of(uuid))

        return self._shelf.change(self._shelf.book_of(uuid), put, uuid)

    def destroy_logbook(self, book_uuid: str) -> None:
        self._shelf.destroy(book_uuid)
